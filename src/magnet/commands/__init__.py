"""The commands, one module each: ``main(arguments)`` reads the options and does the work."""
