// Slurm's short forms: of host names, "node[001-003,7],login", and of counts one a host, "2(x3),1".
// https://slurm.schedmd.com/srun.html#OPT_nodelist, SLURM_STEP_TASKS_PER_NODE
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memtune::launch {

inline constexpr size_t kMostHosts = 1 << 16;

// In their order. UsageError that shows what makes no sense, or for more than kMostHosts.
std::vector<std::string> expand_hosts(std::string_view text);
std::vector<int> expand_counts(std::string_view text);

}  // namespace memtune::launch
