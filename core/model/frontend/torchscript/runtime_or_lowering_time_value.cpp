#include "core/model/frontend/torchscript/runtime_or_lowering_time_value.h"

namespace memtune::frontend {

std::string class_name(const c10::TypePtr& type) {
  auto cls = type->cast<c10::ClassType>();
  return cls && cls->name() ? cls->name()->name() : "";
}

std::string source_of(const torch::jit::Node* node) try {
  torch::jit::SourceRange range = node->sourceRange();
  if (auto original = range.findSourceRangeThatGenerated()) range = *original;
  auto place = range.file_line_col();
  if (!place) return "";
  auto [file, line, column] = *place;
  if (file.empty()) return "";
  size_t slash = file.find_last_of('/');
  return (slash == std::string::npos ? file : file.substr(slash + 1)) + ":" + std::to_string(line);
} catch (const std::exception&) {
  return "";  // debug information is read only now, and is damaged
}

}  // namespace memtune::frontend
