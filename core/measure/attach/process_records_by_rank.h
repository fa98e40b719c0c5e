// Computes the figures of a command from the records of its ranks: time of the slowest rank, highest peak.
#pragma once

#include <span>
#include <vector>

#include "core/measure/attach/records.h"
#include "core/record/measurement/trial_result_row.h"

namespace memtune::attach {

// One process per rank, in the order of ranks. If several processes claim one rank (one command after another), the
// first that finished all steps is used, else the first. The rest are counted.
struct ProcessRecordsByRank {
  std::vector<const TrainingProcessRecords*> ranks;
  int64_t ignored = 0;
};
ProcessRecordsByRank rank_records_of(std::span<const TrainingProcessRecords> processes);

// By their measured steps. The team must have ranks.
const TrainingProcessRecords& slowest_rank(const ProcessRecordsByRank& team);

// Fills in everything but outcome, reason and what traces show.
void fill_measurement(const ProcessRecordsByRank& team, result::TrialMeasurement& to);

// What its user should know of the steps of rank 0: a period, waiting for data, memory that grows, missing gradients.
void add_notes(const ProcessRecordsByRank& team, std::vector<std::string>& notes);

// Figures of torch.save and safetensors' save_file, from rank 0. Empty if nothing was saved.
std::vector<result::StateSaveModeMeasurement> save_figures(const ProcessRecordsByRank& team,
                                                           const result::TrialMeasurement& measurement);

}  // namespace memtune::attach
