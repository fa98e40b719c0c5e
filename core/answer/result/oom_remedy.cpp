#include "core/answer/result/oom_remedy.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace memtune::result {
namespace {

bool always(const OutOfMemoryBreakdown&) { return true; }
bool is_whole(const OutOfMemoryBreakdown& oom) { return !oom.checkpointed; }
bool is_fixed(const OutOfMemoryBreakdown& oom) { return !oom.expandable; }
bool has_states(const OutOfMemoryBreakdown& oom) { return oom.optimizer_bytes >= oom.parameters_bytes; }

// "{checkpoint}" stands for the words of a setting.
struct Remedy {
  OomCause cause;
  const char* text;
  bool (*helps)(const OutOfMemoryBreakdown&) = always;
};

using enum OomCause;

// Those of a cause in the order in which they are worth a try.
constexpr Remedy kRemedies[] = {
    {other_process, "end the other process (nvidia-smi lists it)"},
    {other_process, "take another GPU (CUDA_VISIBLE_DEVICES)"},
    {fragmentation, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True in the environment", is_fixed},
    {fragmentation, "fewer different sizes: pad batches to a few lengths"},
    {fragmentation, "torch.cuda.empty_cache() after an evaluation"},
    {loaded_twice,
     "drop the copy that is not trained when its results are known (del model), or keep it on the CPU "
     "(model.to(\"cpu\"))"},
    {loaded_twice, "as a reference model, the trained one with its adapter switched off takes nothing"},
    {untrained_with_gradients, "run it under torch.no_grad()"},
    {evaluation_with_gradients, "run the model under torch.no_grad() there"},
    {leak,
     "keep numbers or copies on the CPU instead of tensors with a graph: total += loss.item(), "
     "outputs.append(output.detach().cpu())"},
    {kept_outputs, "move each output to the CPU at once ({evaluation_outputs})"},
    {evaluation_batch, "a smaller batch for evaluation and generation ({evaluation_batch})"},
    {evaluation_batch, "outputs that go to the CPU at once ({evaluation_outputs})"},
    {first_update, "an optimizer with smaller states ({optimizer})"},
    {first_update, "LoRA, which trains few parameters"},
    {longer_batch, "limit the length of rows ({length}), or pack them"},
    {longer_batch, "gradient checkpointing ({checkpoint})", is_whole},
    {loss, "a fused loss, or one in chunks, which never has all logits at once ({loss})"},
    {loss, "a smaller micro-batch with more gradient accumulation ({batch})"},
    {attention, "attention without a matrix of scores ({attention})"},
    {kept_tensors,
     "keep them on the CPU (tensor.cpu(), torch.load(file, map_location=\"cpu\")) and bring to the device what a step "
     "reads, or drop them (del)"},
    {states, "an optimizer with smaller states ({optimizer})", has_states},
    {states, "parameters in bfloat16 ({parameters})"},
    {states, "LoRA, or parameters that are sharded or offloaded (FSDP, ZeRO)"},
    {activations, "gradient checkpointing ({checkpoint})", is_whole},
    {activations, "offload of activations to the CPU ({offload})"},
    {activations, "a smaller micro-batch with more gradient accumulation ({batch})"},
};

// How settings are written where the command's own words are not known.
struct LibraryWords {
  std::string_view folder;  // of the source files of its models; "": of any
  std::string_view setting, text;
};

// The first whose folder a line has counts.
constexpr LibraryWords kLibraries[] = {
    {"/timm/", "checkpoint", "model.set_grad_checkpointing()"},
    {"/transformers/", "checkpoint", "model.gradient_checkpointing_enable()"},
    {"/transformers/", "attention", "from_pretrained(..., attn_implementation=\"sdpa\")"},
    {"/transformers/", "parameters", "from_pretrained(..., dtype=torch.bfloat16)"},
    {"/diffusers/", "checkpoint", "model.enable_gradient_checkpointing()"},
    {"", "checkpoint", "torch.utils.checkpoint.checkpoint around each block"},
    {"", "batch", "several backward calls before optimizer.step()"},
    {"", "optimizer", "torch.optim.Adafactor(foreach=False), or bitsandbytes.optim.AdamW8bit"},
    {"", "loss", "the head and the loss of each chunk of positions under torch.utils.checkpoint.checkpoint"},
    {"", "attention", "torch.nn.functional.scaled_dot_product_attention"},
    {"", "length", "ids[:, :LENGTH]"},
    {"", "parameters", "model.to(torch.bfloat16)"},
    {"", "evaluation_batch", "fewer rows in each call"},
    {"", "evaluation_outputs", "outputs.append(output.cpu())"},
};

bool has_line_in(const OutOfMemoryBreakdown& oom, std::string_view folder) {
  return oom.where.file.find(folder) != std::string::npos ||
         std::ranges::any_of(
             oom.lines, [&](const AllocatingSourceLine& line) { return line.file.find(folder) != std::string::npos; });
}

// The setting in "{setting}"; "": the text has none.
std::string setting_in(const std::string& text) {
  const size_t begin = text.find('{');
  return begin == std::string::npos ? "" : text.substr(begin + 1, text.find('}') - begin - 1);
}

std::string words_of(std::string_view setting, const OutOfMemoryBreakdown& oom) {
  const auto own = std::ranges::find(oom.words, setting, &SettingInTrainerSyntax::setting);
  if (own != oom.words.end()) return own->text;
  const LibraryWords* found = std::ranges::find_if(kLibraries, [&](const LibraryWords& words) {
    return words.setting == setting && has_line_in(oom, words.folder);
  });
  return found == std::end(kLibraries) ? "" : std::string(found->text);
}

std::string filled(std::string text, const OutOfMemoryBreakdown& oom) {
  const std::string setting = setting_in(text);
  return setting.empty() ? text : text.replace(text.find('{'), setting.size() + 2, words_of(setting, oom));
}

bool has_words(const std::string& text, const OutOfMemoryBreakdown& oom) {
  const std::string setting = setting_in(text);
  return setting.empty() || !words_of(setting, oom).empty();
}

}  // namespace

std::vector<std::string> remedies(OomCause cause, const OutOfMemoryBreakdown& oom) {
  std::vector<std::string> found;
  for (const Remedy& remedy : kRemedies)
    if (remedy.cause == cause && remedy.helps(oom) && has_words(remedy.text, oom))
      found.push_back(filled(remedy.text, oom));
  return found;
}

}  // namespace memtune::result
