// Expands Slurm's compact lists: host names ("node[001-003,7],login") and counts per host ("2(x3),1").
// https://slurm.schedmd.com/srun.html#OPT_nodelist, SLURM_STEP_TASKS_PER_NODE
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::launch {

inline constexpr size_t kMaxHosts = 1 << 16;

// In the order of the list. Throws UsageError, with the text, if it is invalid or has more than kMaxHosts entries.
std::vector<std::string> expand_hosts(std::string_view text);
std::vector<int> expand_counts(std::string_view text);

}  // namespace memtune::launch
