// Data of the pages: from the server or, in a report, from its own blocks.

/** Fetch JSON data; the browser revalidates its copy by ETag. Throws an Error with the server's sentence. */
export async function fetchData(...parts) {
  const path = parts.map((part) => (typeof part === "string" ? part.split("/").map(encodeURIComponent).join("/") : "?" + new URLSearchParams(part)));
  const answer = await fetch("api/runs" + path.map((part) => (part.startsWith("?") ? part : "/" + part)).join(""));
  const text = await answer.text();
  if (!answer.ok) throw new Error(answer.headers.get("content-type")?.includes("json") ? JSON.parse(text).error : text);
  return { data: JSON.parse(text), tag: answer.headers.get("etag") };
}

/** Return the address of the picture of a run's curves; the tag makes the browser fetch a new one. */
export function findPicture(run, tag) {
  return `api/runs/${encodeURIComponent(run)}/curves.svg?${encodeURIComponent(tag)}`;
}
