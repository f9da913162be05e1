// What the numbers mean, and the keys.

function aboutPanel(data) {
  const sampled = data.count < data.total;
  const keys = [
    ["/", "search"], ["Esc", "choose nothing"], ["Tab", "to the next map or button"],
    ["arrows", "on a map: to the next example in that direction; in the legend: to the next class"],
    ["Shift + arrows", "on a map: move it"], ["+ − 0", "on a map: zoom in, out, all"],
    ["Enter", "on a map: the cluster of the chosen example"], ["[ ]", "back and forth in time"], ["d", "dark or light"],
  ];
  const text = (words) => el("p", { class: "soft", textContent: words });
  return [
    el("h2", { textContent: "What is shown" }),
    text(sampled
      ? `${whole(data.count)} of ${whole(data.total)} examples: a sample that keeps classes and parts in proportion.${data.runs[0].crowd ? " Regions are of all training examples: those that are not shown lie between the three shown ones nearest to them, and close up they are small dots that cannot be chosen." : ""}`
      : `All ${whole(data.total)} examples.`),
    text("The map is a t-SNE of the representations: near is similar; far apart and the size of groups say little. It is made from the examples alone, without their classes. Each run has a map of its own."),
    text("White dots are cluster centres, larger with more members, each among the ten examples closest to it. Regions show where a class is the densest; the name of a class stands on its densest part in view, where there is room."),
    text("Marks of right and wrong labels are kept by this browser, for all pages on the same data. Export CSV, under Suspects, saves them with the corrected labels."),
    el("h3", { textContent: "Numbers" }),
    text("Loss is -log of the probability of the label under the rule that the method is judged by: "
      + `${data.runs.map((run) => `${run.rule} for ${run.name}`).join(", ")}; of an earlier refresh, under kNC. It ends at 27.6.`),
    text(`Suspects are ordered by the held-out loss, as magnet suspects has it. ${heldOutText(data.runs[0])}`),
    text("The error above a map is that of the whole test part, as magnet evaluate has it; of images, that of the plain view (the centre, in the middle of the range of scales that training sees), in which all examples are seen here."),
    text("Training examples take part in the clusters that judge them; under soft kNN an example has no vote on itself."),
    text("Distances are in σ, the spread of the run's clusters. The spread of one cluster is the root mean square distance of its members to the centre."),
    text("An example's cluster is the one of its own class that it was trained in, or for others the nearest of its class."),
    el("h3", { textContent: "Keys" }),
    el("table", {}, keys.map(([key, meaning]) => el("tr", {}, el("td", {}, el("kbd", { textContent: key })), el("td", { textContent: meaning })))),
    el("p", { class: "soft small", textContent: `magnet ${data.version}` }),
  ];
}
