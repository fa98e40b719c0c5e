// The output formats of `memtune report`: what each shows, its default file and the program that opens it. To add a
// format, add an entry to the table in format.cpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/answer/report/html/html.h"
#include "core/answer/report/report.h"
#include "core/answer/report/text/table.h"
#include "core/record/trace/trace_event.h"

namespace memtune::report {

// The inputs of a format's writer. `report` is always set; the other members only if the format asks for them.
struct ReportWriterInput {
  const Report& report;
  TerminalCapabilities style;                            // for terminal output
  std::span<const TrialWithTraceForMemoryChart> traced;  // set if ReportFormatDefinition::shows_memory
  const trace::Trace* trace = nullptr;                   // set if ReportFormatDefinition::per_trial
};

struct ReportFormatDefinition {
  const char* name = "";
  bool per_trial = false;         // shows one trial's trace; otherwise the whole sweep
  bool shows_findings = false;    // findings from the recommended trial's trace
  bool shows_memory = false;      // memory over time of the recommended trial and of its reference
  bool binary = false;            // not printed to a terminal
  const char* default_file = "";  // written next to its input; "": stdout
  const char* opened_in = "";     // "a browser"; "": plain text
  std::string (*write)(const ReportWriterInput&) = nullptr;
};

std::span<const ReportFormatDefinition> formats();
std::vector<std::string> format_names();
const ReportFormatDefinition& find_format(const std::string& name);  // UsageError lists the known names

}  // namespace memtune::report
