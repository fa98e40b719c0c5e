// The report as GitHub Markdown with a table, for an issue or a pull request.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

std::string markdown(const Report& report);

}  // namespace memtune::report
