// Selects the options of a block that are worth passing to the planner. It drops near duplicates and takes options that
// are best at some prices of resident and moved bytes, then some in between.
#pragma once

#include <vector>

#include "core/plan/planner/block_options.h"

namespace memtune::planner {

// Returns at most `most` (at least 2), most resident bytes first. It always includes the option that keeps everything
// and the one with the fewest resident bytes. With three or more it includes the smallest that offloads nothing. No
// element of `options` may dominate another: fewer bytes, moved ones included, must mean longer recomputation.
std::vector<BlockOption> select_options(std::vector<BlockOption> options, int most);

}  // namespace memtune::planner
