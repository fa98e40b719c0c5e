#include "core/model/frontend/front_end.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/model/frontend/adapter/lora_writer.h"
#include "core/model/frontend/adapter/quantizer.h"
#include "core/model/frontend/pt2/pt2_front_end.h"
#include "core/model/frontend/torchscript/torchscript_front_end.h"
#include "core/model/frontend/transformers/transformers_front_end.h"

namespace memtune::frontend {
namespace {

std::vector<std::unique_ptr<const FrontEnd>> all() {
  std::vector<std::unique_ptr<const FrontEnd>> list;
  list.push_back(std::make_unique<TorchScriptFrontEnd>());
  list.push_back(std::make_unique<Pt2FrontEnd>());
  list.push_back(std::make_unique<TransformersFrontEnd>());
  return list;
}

program::Program lowered(const ModelSourceAndLoweringOptions& source) {
  const DetectedModelSource found = probe(source.model);
  for (const auto& front_end : front_ends())
    if (front_end->claims(found)) return front_end->lower(source);
  model::refuse_model(source.model.path, found.file.unusable_reason);
}

}  // namespace

AttentionImplementation parse_attention(const std::string& text) {
  for (size_t i = 0; i < kAttentions.size(); ++i)
    if (text == kAttentions[i]) return static_cast<AttentionImplementation>(i);
  throw UsageError(unknown_name("attention", text, kAttentions));
}

ModelOutputHeadKind head_for(LossKind loss) {
  if (loss == LossKind::embedding) return ModelOutputHeadKind::embedding;
  return loss == LossKind::reward ? ModelOutputHeadKind::score : ModelOutputHeadKind::of_config;
}

const std::vector<std::unique_ptr<const FrontEnd>>& front_ends() {
  static const auto list = all();
  return list;
}

namespace {

program::Program adapted(const ModelSourceAndLoweringOptions& source) {
  program::Program program = lowered(source);
  program.as_written = nullptr;
  program.has_head = source.head != ModelOutputHeadKind::embedding;
  if (!source.load_in.empty()) quantize(program, source.load_in);
  if (source.lora.empty()) return program;
  model::LoraConfig lora = model::parse_lora(source.lora);
  lora.of_whole = source.model.text_only;
  add_lora(program, lora, source.seed);
  return program;
}

}  // namespace

program::Program lower(const ModelSourceAndLoweringOptions& source) {
  program::Program program = adapted(source);
  if (program.state.host_weights)
    for (const auto& [name, parameter] : program.state.parameters) program.state.host_weights->move(parameter);
  return program;
}

}  // namespace memtune::frontend
