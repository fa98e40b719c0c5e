// Which of many options of a block are worth handing to a planner: none that is nearly another, those that are best at
// some prices of bytes that stay and of bytes that move, and some between these.
#pragma once

#include <vector>

#include "core/planner/block_options.h"

namespace memtune::planner {

// At most `most` (at least 2), most resident bytes first. The one that keeps everything, the one with the fewest
// resident bytes and, of three or more, the one with the fewest that moves nothing are always among them. Of `options`
// none may beat another: whoever needs fewer bytes, moved ones included, reruns longer.
std::vector<BlockOption> select_options(std::vector<BlockOption> options, int most);

}  // namespace memtune::planner
