#include "core/model/program/first_line.h"

#include <c10/util/Exception.h>

namespace memtune::program {

std::string first_line(const std::exception& error) {
  auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = torch_error ? torch_error->what_without_backtrace() : error.what();
  size_t begin = text.find_first_not_of(" \n");
  return begin == std::string::npos ? "no reason given" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace memtune::program
