#include "core/measure/profiler/kernel_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace memtune::profiler {
namespace {

constexpr size_t kMax = 100;

void erase_all(std::string& text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

// The parameter list is the first parenthesis outside template arguments.
size_t end_of_name(const std::string& text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (text[i] == '(' && depth == 0) return i;
  }
  return text.size();
}

std::string demangle(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                    &std::free);
  return status == 0 ? text.get() : mangled;
}

}  // namespace

std::string kernel_name(const char* mangled) {
  if (mangled == nullptr) return "kernel";
  std::string name = demangle(mangled);
  if (name.rfind("void ", 0) == 0) name.erase(0, 5);
  for (const char* part : {"(anonymous namespace)::", "at::native::", "at::", "c10::"}) erase_all(name, part);
  name.resize(end_of_name(name));
  if (name.size() > kMax) name = name.substr(0, kMax - 3) + "...";
  return name;
}

}  // namespace memtune::profiler
