// Comments at the head of what export writes.
#pragma once

#include <string>

#include "core/report/report.h"

namespace memtune::trainer {

// "# label value", wrapped; nothing where `value` is empty.
void put_comment(std::string& text, const std::string& label, const std::string& value);

// Step and peak of a row, beside the reference's.
std::string measured_text(const result::Row& row, const report::Report& report);

}  // namespace memtune::trainer
