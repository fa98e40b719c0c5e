// The command that a person typed to start this process, for records of how a result came to be.
#pragma once

#include <string>
#include <vector>

namespace memtune::sweep {

// As a shell takes it: "memtune sweep --input 'tokens:int64[4]<9'".
std::string shell_line(const std::vector<std::string>& words);

// Of this process; the program without its folder. "" where the system does not tell.
std::string command_line();

}  // namespace memtune::sweep
