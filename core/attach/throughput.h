// Samples and tokens a second of a command, from the batches that its loaders gave.
//
// A step has as many batches as backwards, of the median size: loaders are asked ahead, and by evaluations too, so what
// left them during a step need not be what it was trained on. How many left tells only how many backwards share one.
// Padding counts.
#pragma once

#include <string>
#include <vector>

#include "core/attach/figures.h"

namespace memtune::attach {

// Summed over ranks, at the measured step's time, which is there already. Nothing is claimed where a rank had no batch
// of a known size, or where ranks were fed the same: that is said in a note.
void fill_throughput(const Team& team, result::Measurement& to, std::vector<std::string>& notes);

}  // namespace memtune::attach
