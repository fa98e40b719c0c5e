// The command line of this process, which is recorded with the results.
#pragma once

#include <string>
#include <vector>

namespace memtune::sweep {

// Quoted for a shell: "memtune sweep --input 'tokens:int64[4]<9'".
std::string shell_line(const std::vector<std::string>& words);

// The program is named without its folder. "" if /proc is not available.
std::string command_line();

}  // namespace memtune::sweep
