// Words as a shell reads them back.
#pragma once

#include <string>
#include <vector>

namespace memtune {

// Quoted for a shell: "memtune sweep --input 'tokens:int64[4]<9'".
std::string shell_line(const std::vector<std::string>& words);

}  // namespace memtune
