// A low-rank adapter as peft describes it: which linear layers get one, how large it is, what is trained besides.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace memtune::config {

enum class LoraStart { kaiming, gaussian, noise };  // of A, with B zeros; noise: both drawn as a linear layer's weight
enum class LoraBias { none, all, adapted };         // which of the model's biases are trained: adapted layers' alone

// Modules, as peft names them: "q_proj" is the last part or parts of a path; a pattern matches the whole path.
struct ModuleNames {
  std::vector<std::string> names;
  std::optional<std::string> pattern;

  bool empty() const { return names.empty() && !pattern; }
  bool has(const std::string& path) const;
};

struct Lora {
  int64_t rank = 8;
  double alpha = 8;
  double dropout = 0;
  bool by_root = false;  // rslora: the scale is alpha / sqrt(rank), not alpha / rank
  LoraStart start = LoraStart::kaiming;
  LoraBias bias = LoraBias::none;
  bool all_linear = true;  // all but the output head; else `targets`
  ModuleNames targets, excluded;
  std::vector<int64_t> layers;  // of named targets only those; empty: all
  std::vector<std::string> layer_lists;
  std::vector<std::pair<std::string, int64_t>> ranks;  // of paths that end with the pattern
  std::vector<std::pair<std::string, double>> alphas;
  std::filesystem::path file;     // adapter_config.json that it was read from; "": typed
  std::filesystem::path weights;  // adapter_model.safetensors beside it; "": there is none

  bool adapts(const std::string& path, bool is_head) const;
  int64_t rank_of(const std::string& path) const;
  double scale_of(const std::string& path) const;
};

// "r=16,alpha=32,dropout=0.05,targets=q_proj+v_proj,rslora", an adapter_config.json, or a folder with one. UsageError
// for what makes no sense, and for fields of the file that ask for what is not built.
Lora parse_lora(const std::string& text);

// As a request keeps it, whatever folder it is read in: a file's path made absolute.
std::string canonical_lora(const std::string& text);

}  // namespace memtune::config
