// The figures of a command from its ranks' records: the slowest rank's time and the highest peak count.
#pragma once

#include <span>
#include <vector>

#include "core/attach/records.h"
#include "core/result/row.h"

namespace memtune::attach {

// One process a rank, by rank: of several that say that they are it (one command after another) the first that took
// all its steps, else the first. What more there are is counted.
struct Team {
  std::vector<const TrainingRecords*> ranks;
  int64_t left_out = 0;
};
Team team_of(std::span<const TrainingRecords> processes);

// By its measured steps; the team has ranks.
const TrainingRecords& slowest_rank(const Team& team);

double median_of(std::vector<double> values);

// All but outcome, reason and what traces tell.
void fill_figures(const Team& team, result::Measurement& to);

// Of torch.save and its kin; nothing when there was none.
std::vector<result::SaveMeasurement> save_figures(const Team& team, const result::Measurement& measurement);

}  // namespace memtune::attach
