#include "core/answer/report/report_format_definition.h"

#include <algorithm>

#include "core/answer/report/interchange/memory_snapshot.h"
#include "core/answer/report/interchange/perfetto.h"
#include "core/answer/report/text/csv.h"
#include "core/answer/report/text/json.h"
#include "core/answer/report/text/markdown.h"
#include "core/answer/report/text/pareto_plot.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace memtune::report {
namespace {

constexpr ReportFormatDefinition kFormats[] = {
    {.name = "table",
     .shows_findings = true,
     .write = [](const ReportWriterInput& shown) { return table(shown.report, shown.style); }},
    {.name = "json",
     .shows_findings = true,
     .write = [](const ReportWriterInput& shown) { return to_json_text(shown.report); }},
    {.name = "csv", .write = [](const ReportWriterInput& shown) { return csv(shown.report); }},
    {.name = "markdown",
     .shows_findings = true,
     .write = [](const ReportWriterInput& shown) { return markdown(shown.report); }},
    {.name = "html",
     .shows_findings = true,
     .shows_memory = true,
     .default_file = "report.html",
     .opened_in = "a browser",
     .write = [](const ReportWriterInput& shown) { return html(shown.report, shown.traced); }},
    {.name = "pareto", .write = [](const ReportWriterInput& shown) { return pareto_plot(shown.report, shown.style); }},
    {.name = "perfetto",
     .per_trial = true,
     .opened_in = "ui.perfetto.dev",
     .write = [](const ReportWriterInput& shown) { return perfetto(*shown.trace); }},
    {.name = "memory-snapshot",
     .per_trial = true,
     .binary = true,
     .default_file = "memory-snapshot.pickle",
     .opened_in = "pytorch.org/memory_viz",
     .write = [](const ReportWriterInput& shown) { return memory_snapshot(*shown.trace); }},
};

}  // namespace

std::span<const ReportFormatDefinition> formats() { return kFormats; }

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const ReportFormatDefinition& format : kFormats) names.push_back(format.name);
  return names;
}

const ReportFormatDefinition& find_format(const std::string& name) {
  const auto found = std::ranges::find(kFormats, name, &ReportFormatDefinition::name);
  if (found == std::end(kFormats)) throw UsageError(unknown_name("format", name, format_names()));
  return *found;
}

}  // namespace memtune::report
