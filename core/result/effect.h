// What a trial did to a step: how many bytes it moved away and made again. One that did neither is the baseline under
// another name, whatever its plan says.
#pragma once

#include <cstdint>

#include "core/result/row.h"

namespace memtune::result {

// Worked, counted what it did, and did nothing. Never true of `none` itself.
bool did_nothing(const Measurement& measurement);

// Bytes a step that were moved or made again.
int64_t changed_bytes(const Measurement& measurement);

// By changed_bytes where both were counted; else whoever holds more memory changes less. The base changes least.
// Of commands, whose changes nobody counts, the one that holds less memory is taken for it.
bool changes_less(const Row& a, const Row& b);

}  // namespace memtune::result
