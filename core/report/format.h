// The forms in which a sweep, or a trial of it, is shown: what each is of, where it is written, who opens it. A new
// form is an entry of the table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/report/html/html.h"
#include "core/report/report.h"
#include "core/report/text/table.h"
#include "core/trace/event.h"

namespace memtune::report {

// What a format writes from; the report is always there, the rest where the format asks for it.
struct Shown {
  const Report& report;
  TableStyle style;                     // for what is read in a terminal
  std::span<const TracedTrial> traced;  // Format::shows_memory
  const trace::Trace* trace = nullptr;  // Format::per_trial
};

struct Format {
  const char* name = "";
  bool per_trial = false;         // of one trial's trace; else of the sweep
  bool shows_findings = false;    // which are looked for in the recommended trial's trace
  bool shows_memory = false;      // of the recommended trial and of what it is compared with, over time
  bool binary = false;            // not for terminals
  const char* default_file = "";  // beside what it is made from; "": stdout
  const char* opened_in = "";     // "a browser"; "": it is read as it is
  std::string (*write)(const Shown&) = nullptr;
};

std::span<const Format> formats();
std::vector<std::string> format_names();
const Format& find_format(const std::string& name);  // UsageError with the names that there are

}  // namespace memtune::report
