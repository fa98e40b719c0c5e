// Which of many options of a block are worth handing to a planner: none that another beats in all, none that is nearly
// another, and of the rest those that are best at some prices of bytes that stay and of bytes that move.
#pragma once

#include <vector>

#include "core/planner/block_options.h"

namespace memtune::planner {

// At most `most` (at least 2), most resident bytes first. The first of `options` keeps everything; it, the one with the
// fewest resident bytes and, of three or more, the one with the fewest that moves nothing are always among them.
std::vector<BlockOption> select_options(std::vector<BlockOption> options, int most);

}  // namespace memtune::planner
