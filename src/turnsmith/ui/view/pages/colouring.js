// Colours of sampled tokens: by log-prob, advantage, loss mask, or gap between engine and trainer.

import { make, toSigned } from "./dom.js";

const PROBABILITIES = [0.9, 0.5, 0.1, 0.01];
const GAPS = [0.001, 0.01, 0.1, 1];

/** Colourings: title, class of a token (or "" for none), and legend as pairs of class and text. A token is
 * [text, log-prob, in the loss, gap]. */
export const COLOURINGS = {
  logprob: {
    title: "log-prob",
    kind: ([, logprob]) => `token-${PROBABILITIES.filter((limit) => Math.exp(logprob ?? -Infinity) < limit).length}`,
    legend: ({ turns }) => [...["above 0.9", "above 0.5", "above 0.1", "above 0.01", "0.01 or less"].map((text, range) => [`token-${range}`, text]), ["", describeLowest(turns)]],
  },
  advantage: {
    title: "advantage",
    kind: ([, , isTrained], advantage) => (isTrained && advantage ? (advantage > 0 ? "token-up" : "token-down") : ""),
    legend: ({ advantage }) => (advantage === null ? [["", "no advantage is recorded for this trajectory"]] : [[advantage > 0 ? "token-up" : "token-down", `${toSigned(advantage)} for all tokens in the loss`]]),
  },
  loss: {
    title: "loss mask",
    kind: ([, , isTrained]) => (isTrained ? "token-up" : isTrained === false ? "token-out" : ""),
    legend: ({ turns }) => (turns.flat().some(([, , isTrained]) => isTrained === null) ? [["", "not recorded by this run"]] : [["token-up", "in the loss"], ["token-out", "not in the loss"]]),
  },
  gap: {
    title: "gap of trainer and engine",
    kind: ([, , , gap]) => (gap === null ? "" : `token-${GAPS.filter((limit) => Math.abs(gap) >= limit).length}`),
    legend: ({ turns }) => (turns.flat().every(([, , , gap]) => gap === null) ? [["", "not recorded for this trajectory"]] : ["below 0.001", "0.001", "0.01", "0.1", "1 or more"].map((text, range) => [`token-${range}`, text])),
  },
};

/** Name the sampled token with the lowest log-prob. */
function describeLowest(turns) {
  const all = turns.flatMap((turn, position) => turn.map(([text, logprob]) => ({ text, logprob, turn: position + 1 })));
  const finite = all.filter(({ logprob }) => Number.isFinite(logprob));
  if (!finite.length) return "";
  const lowest = finite.reduce((one, other) => (other.logprob < one.logprob ? other : one));
  return `lowest: ${JSON.stringify(lowest.text)} in turn ${lowest.turn}, log-prob ${lowest.logprob.toFixed(2)}`;
}

/** Make a token; its title has all figures. */
export function makeToken(token, colouring, advantage) {
  const [text, logprob, isTrained, gap] = token;
  const facts = [`log-prob ${logprob?.toFixed(3) ?? "not finite"}`];
  if (isTrained) facts.push(advantage === null ? "in the loss" : `in the loss, advantage ${toSigned(advantage)}`);
  if (gap !== null) facts.push(`gap ${gap.toExponential(1)}`);
  return make("span", { class: COLOURINGS[colouring]?.kind(token, advantage) ?? "", title: facts.join(", ") }, text);
}

export function makeLegend(colouring, tokens) {
  return COLOURINGS[colouring].legend(tokens).flatMap(([kind, text]) => [make("span", { class: kind }, text), " "]);
}
