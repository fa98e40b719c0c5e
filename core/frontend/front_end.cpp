#include "core/frontend/front_end.h"

#include "core/frontend/decoder/decoder_front_end.h"
#include "core/frontend/torchscript/torchscript_front_end.h"

namespace memtune::frontend {
namespace {

std::vector<std::unique_ptr<const FrontEnd>> all() {
  std::vector<std::unique_ptr<const FrontEnd>> list;
  list.push_back(std::make_unique<TorchScriptFrontEnd>());
  list.push_back(std::make_unique<DecoderFrontEnd>());
  return list;
}

[[noreturn]] void refuse_unclaimed(const Source& source, const Probe& probe) {
  const std::string& path = source.model.path;
  if (probe.has("archive_format") || probe.has("models/") || probe.has("serialized_exported_program"))
    refuse(path, std::string("it is a torch.export archive") + kHowToSave);
  if (probe.has("data.pkl"))
    refuse(path, std::string("it was written by torch.save and holds weights or pickled Python, no code") + kHowToSave);
  refuse(path, std::string("it is a zip archive without TorchScript code") + kHowToSave);
}

}  // namespace

const std::vector<std::unique_ptr<const FrontEnd>>& front_ends() {
  static const auto list = all();
  return list;
}

program::Program lower(const Source& source) {
  const Probe found = probe(source.model);
  for (const auto& front_end : front_ends())
    if (front_end->claims(found)) return front_end->lower(source);
  refuse_unclaimed(source, found);
}

}  // namespace memtune::frontend
