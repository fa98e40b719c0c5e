#include "core/sweep/loop/command_line.h"

#include <filesystem>
#include <fstream>
#include <vector>

#include "core/base/shell_line.h"

namespace memtune::sweep {

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words[0] = std::filesystem::path(words[0]).filename().string();
  return shell_line(words);
}

}  // namespace memtune::sweep
