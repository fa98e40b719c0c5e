// Time for the same work over peak as SVG: Pareto fronts, the recommended trial, the budget as a line. "" if no trial
// worked.
#pragma once

#include <string>

#include "core/answer/report/report.h"

namespace memtune::report {

std::string pareto_chart(const Report& report);

}  // namespace memtune::report
