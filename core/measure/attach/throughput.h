// Samples and tokens per second of a command, from the batches that its data loaders returned.
//
// A step has as many batches as backwards, of the median size. Loaders prefetch and serve evaluations too, so the
// batches that they return during a step need not be those that it trains on. Their number only shows how many
// backwards share a batch. Padding counts.
#pragma once

#include <string>
#include <vector>

#include "core/measure/attach/process_records_by_rank.h"

namespace memtune::attach {

// Sums over ranks, at the measured step time, which `to` has already. Sets nothing if a rank had no batch of known
// size, or if ranks got the same batches; the latter gets a note.
void fill_throughput(const ProcessRecordsByRank& team, result::TrialMeasurement& to, std::vector<std::string>& notes);

}  // namespace memtune::attach
