// Time against peak as SVG: the fronts drawn, the recommended marked, the budget a line; "" where no trial worked.
#pragma once

#include <string>

#include "core/report/report.h"

namespace memtune::report {

std::string pareto_chart(const Report& report);

}  // namespace memtune::report
