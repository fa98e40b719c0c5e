// A LoRA adapter as peft describes it: adapted linear layers, rank, scale, and other trained parameters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace memtune::model {

enum class LoraInit { kaiming, gaussian, noise };  // of A, with B zero; noise: A and B as a linear layer's weight
enum class LoraBias { none, all, adapted };        // which biases are trained; adapted: those of adapted layers

// Module names as in peft. A name such as "q_proj" matches the last parts of a path; a pattern matches the whole path.
struct ModuleSelector {
  std::vector<std::string> names;
  std::optional<std::string> pattern;

  bool empty() const { return names.empty() && !pattern; }
  bool has(const std::string& path) const;
};

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool by_root = false;  // rslora: scale = alpha / sqrt(rank) instead of alpha / rank
  LoraInit start = LoraInit::kaiming;
  LoraBias bias = LoraBias::none;
  bool all_linear = true;  // all linear layers but the output head; false: `targets`
  ModuleSelector targets, excluded;
  bool of_whole = false;  // the adapted text model stands for one of several modalities, whose paths `targets` may have
  std::vector<int64_t> layers;  // layer numbers to which named targets are limited; empty: all
  // names of module lists whose index is the layer number; empty: the first list in the path
  std::vector<std::string> layer_lists;
  std::vector<std::pair<std::string, int64_t>> ranks;  // by pattern of the end of a path
  std::vector<std::pair<std::string, double>> alphas;
  std::filesystem::path file;     // the adapter_config.json that was read; empty: given as text
  std::filesystem::path weights;  // adapter_model.safetensors in the same folder; empty: none

  bool adapts(const std::string& path, bool is_head) const;
  bool is_target(const std::string& path) const;
  int64_t rank_of(const std::string& path) const;
  double scale_of(const std::string& path) const;
};

// Parses "r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj,rslora", an adapter_config.json, or a folder with one. Like
// peft's target_modules, targets may be a regular expression.
// Throws UsageError for invalid values and for fields of the file that memtune does not support.
LoraConfig parse_lora(const std::string& text);

// The form stored in requests: a file's path is made absolute, so that the working folder does not matter.
std::string canonical_lora(const std::string& text);

}  // namespace memtune::model
