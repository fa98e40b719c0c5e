#include "core/answer/report/html/html_style.h"

namespace memtune::report {

const char* const kHtmlStyle = R"css(
:root { color-scheme: light dark;
  --page:#fff; --ink:#1c2128; --soft:#57606a; --rule:#d0d7de; --grid:#e6eaee; --card:#f6f8fa;
  --good:#006b4e; --bad:#b3261e; --doubt:#7a5200; --mark:#e3f4ee;
  --s0:#0072b2; --s1:#e69f00; --s2:#009e73; --s3:#cc79a7; --s4:#56b4e9; --s5:#d55e00; --s6:#e3d235; --s7:#aab2bb; }
@media screen and (prefers-color-scheme: dark) { :root {
  --page:#14181d; --ink:#e6e9ed; --soft:#a0a9b3; --rule:#39424c; --grid:#262d35; --card:#1c2229;
  --good:#4fd1a5; --bad:#ff8a80; --doubt:#e8b95a; --mark:#17352c;
  --s0:#3d9bd8; --s1:#e69f00; --s2:#1fb489; --s3:#d58db5; --s4:#7cc6f0; --s5:#e8702a; --s6:#d9ca3a; --s7:#5d6771; } }
* { box-sizing:border-box; }
body { margin:0; background:var(--page); color:var(--ink); font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif; }
main { max-width:1560px; margin:0 auto; padding:28px 24px 40px; }
h1 { font-size:25px; line-height:1.25; margin:0 0 2px; overflow-wrap:anywhere; }
h2 { font-size:18px; margin:0 0 8px; }
h3 { font-size:15px; margin:0 0 4px; overflow-wrap:anywhere; }
p { margin:4px 0; max-width:95ch; }
li, p, figcaption { overflow-wrap:anywhere; }
.soft, caption, figcaption, footer { color:var(--soft); font-size:14px; }
section { margin-top:30px; }
section.advice { background:var(--card); border-left:4px solid var(--good); padding:14px 18px; border-radius:4px; overflow-wrap:anywhere; }
section.none { border-color:var(--bad); }
section.advice p { font-size:17px; }
.figures { display:flex; flex-wrap:wrap; gap:6px 34px; margin-top:8px; }
.figures b { font-size:21px; font-variant-numeric:tabular-nums; margin-right:6px; }
.wide { overflow-x:auto; }
table { border-collapse:collapse; font-variant-numeric:tabular-nums; }
th, td { padding:4px 12px; text-align:right; border-bottom:1px solid var(--grid); white-space:nowrap; vertical-align:baseline; }
th { vertical-align:bottom; border-bottom:1px solid var(--soft); font-weight:600; }
th.sortable { cursor:pointer; } th.sortable:hover, th.sortable:focus { text-decoration:underline; }
th[aria-sort=ascending]::after { content:" ▴"; } th[aria-sort=descending]::after { content:" ▾"; }
.words { text-align:left; } td.reason { text-align:left; white-space:normal; min-width:36ch; }
tr.chosen td { background:var(--mark); font-weight:600; }
td.good { color:var(--good); } td.bad { color:var(--bad); } td.doubtful { color:var(--doubt); } td.dim { color:var(--soft); }
.charts { display:grid; grid-template-columns:repeat(auto-fit,minmax(min(100%,560px),1fr)); gap:26px 34px; }
.charts > div > figure + figure { margin-top:22px; }
figure { margin:0; min-width:0; max-width:760px; }
svg { display:block; width:100%; min-width:580px; height:auto; }
svg text { font:12px system-ui,-apple-system,"Segoe UI",sans-serif; fill:var(--ink); }
svg .tick, svg .name { fill:var(--soft); }
svg .strong { font-weight:700; }
svg .warn { fill:var(--bad); }
svg .halo-text { paint-order:stroke; stroke:var(--page); stroke-width:4px; stroke-linejoin:round; }
svg line, svg polyline { fill:none; stroke:var(--soft); stroke-width:1; }
svg .grid { stroke:var(--grid); } svg .axis { stroke:var(--soft); }
svg .front { stroke:var(--s0); stroke-width:1.6; }
svg .frontier { stroke:var(--s7); stroke-width:1.2; stroke-dasharray:2 3; }
svg .planned { fill:var(--s7); }
svg .budget { stroke:var(--bad); stroke-width:1.5; stroke-dasharray:6 4; }
svg .leader { stroke:var(--soft); } svg .interval { stroke:var(--ink); stroke-width:1.3; }
svg .other { fill:var(--s7); } svg .best { fill:var(--s0); } svg .chosen { fill:var(--s2); }
svg .predicted { fill:none; stroke:var(--s7); stroke-width:1.2; }
svg .halo { fill:none; stroke:var(--s2); stroke-width:2; }
svg line.flag { stroke:var(--ink); stroke-dasharray:2 3; } svg circle.flag { fill:var(--ink); }
svg .s0 { fill:var(--s0); } svg .s1 { fill:var(--s1); } svg .s2 { fill:var(--s2); } svg .s3 { fill:var(--s3); }
svg .s4 { fill:var(--s4); } svg .s5 { fill:var(--s5); } svg .s6 { fill:var(--s6); } svg .s7 { fill:var(--s7); }
svg .pale { fill-opacity:.72; }
ul { margin:4px 0; padding-left:22px; } li { margin:3px 0; max-width:95ch; }
.findings { list-style:none; padding:0; } .findings li { border-left:3px solid var(--s7); padding:2px 0 2px 12px; margin:8px 0; }
.findings b { font-weight:600; color:var(--soft); margin-right:6px; }
.findings .problem { border-color:var(--bad); } .findings .problem b { color:var(--bad); } .findings .advice { border-color:var(--s1); }
dl { display:grid; grid-template-columns:max-content 1fr; gap:4px 16px; margin:0; } dt { color:var(--soft); } dd { margin:0; max-width:85ch; overflow-wrap:anywhere; }
code { font:13px ui-monospace,"SFMono-Regular",Menlo,Consolas,monospace; }
footer { margin-top:34px; border-top:1px solid var(--rule); padding-top:10px; }
@media (max-width:1000px) { table { font-size:14px; } th, td { padding:4px 7px; } th, td.words { white-space:normal; }
  .trials th:nth-child(2), .trials td:nth-child(2) { position:sticky; left:0; background:var(--page); min-width:13ch; }
  .trials tr.chosen td:nth-child(2) { background:var(--mark); } }
@media (max-width:560px) { dl { grid-template-columns:1fr; } dd { margin-bottom:6px; } }
@page { margin:14mm; }
@media print { body { font-size:11px; } main { padding:0; max-width:none; } th, td { padding:2px 6px; }
  .wide { overflow:visible; } figure, tr, section.advice, li { break-inside:avoid; } h2 { break-after:avoid; }
  .charts { grid-template-columns:1fr; } figure { max-width:560px; } * { print-color-adjust:exact; -webkit-print-color-adjust:exact; } }
)css";

const char* const kHtmlScript = R"js(
for (const table of document.querySelectorAll("table.trials")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th").forEach((head, column) => {
    if (!head.textContent.trim()) return;
    head.classList.add("sortable");
    head.tabIndex = 0;
    const key = row => {
      const text = row.cells[column].textContent.trim(), number = parseFloat(text.replace(/^≈ /, ""));
      return head.classList.contains("words") ? text : isNaN(number) ? Infinity : number;
    };
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0) * (down ? -1 : 1));
      body.append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
  });
}
)js";

}  // namespace memtune::report
