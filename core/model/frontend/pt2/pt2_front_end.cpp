#include "core/model/frontend/pt2/pt2_front_end.h"

#include "core/model/frontend/dtype.h"
#include "core/model/frontend/generated_mask.h"
#include "core/model/frontend/library.h"
#include "core/model/frontend/pt2/loaded_pt2_tensors.h"
#include "core/model/frontend/pt2/program_writer.h"
#include "core/model/frontend/pt2/training_mode.h"
#include "core/model/pt2/pt2_archive.h"

namespace memtune::frontend {
namespace {

const char* const kFixedByExport = "exported: dropout, branches and batch-norm mode are fixed as they were recorded";

void check_is_trainable(const ModelSourceAndLoweringOptions& source, const program::ModelParametersAndBuffers& state) {
  bool trains = false;
  for (const auto& [name, parameter] : state.parameters) {
    trains |= parameter.requires_grad();
    if (!source.dtype.empty() && parameter.is_floating_point() && name_of(parameter.scalar_type()) != source.dtype)
      model::refuse_model(source.model.path, "--dtype " + source.dtype +
                                                 ": an exported program keeps the dtypes it has; "
                                                 "'" +
                                                 name + "' is " + name_of(parameter.scalar_type()) +
                                                 ". Export model.to(torch." + source.dtype +
                                                 "), or train under --autocast");
  }
  if (state.parameters.empty()) model::refuse_model(source.model.path, "it has no parameters");
  if (!trains)
    model::refuse_model(source.model.path, "none of its parameters requires grad, so there is nothing to train");
}

program::Program lower_archive(const ModelSourceAndLoweringOptions& source) {
  const model::Pt2Archive archive(source.model.path);
  const model::ParsedPt2Program exported = model::read_pt2_program(archive);
  const LoadedPt2Tensors weights(archive, exported.tensors, source.device);
  program::Program program = write_program(exported, weights, source);
  program.kind = "exported";
  return program;
}

}  // namespace

program::Program Pt2FrontEnd::lower(const ModelSourceAndLoweringOptions& source) const {
  load_libraries(source.model.libraries);
  program::Program program;
  try {
    program = lower_archive(source);
  } catch (const UsageError& error) {
    model::refuse_model(source.model.path, error.what());
  }
  check_is_trainable(source, program.state);
  program.notes.emplace_back(kFixedByExport);
  for (const std::string& note : {note_on_evaluation(program), note_on_generated_mask(program)})
    if (!note.empty()) program.notes.push_back(note);
  return program;
}

}  // namespace memtune::frontend
