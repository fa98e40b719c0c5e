#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/offer.h"
#include "core/base/error.h"
#include "core/model/convert/convert_program.h"

namespace memtune::cli {
namespace {

constexpr char kConvertDescription[] =
    R"(Write a model of Hugging Face transformers, with the loss of its task, as a program for --model.

Examples:
  memtune convert path/to/bert                       the task is that of the config's architectures
  memtune convert path/to/model --task sequence-classification --seq 512
  memtune convert answerdotai/ModernBERT-base --dtype bfloat16 --output modernbert.pt2
  memtune convert path/to/model --task embedding --padding

It is for models that --model does not take from their config.json: encoders, classifiers, encoder-decoders, models of
images and sound. The Python that trains writes the program, with its torch and transformers, by torch.export. A folder
without weights gets weights that are drawn at random.)";

const std::vector<std::string> kTasks = {"causal-lm",
                                         "masked-lm",
                                         "seq2seq-lm",
                                         "sequence-classification",
                                         "token-classification",
                                         "question-answering",
                                         "image-classification",
                                         "image-text-to-text",
                                         "audio-classification",
                                         "speech-seq2seq",
                                         "reward",
                                         "embedding"};
const std::vector<std::string> kDtypes = {"float32", "bfloat16", "float16"};
const std::vector<std::string> kAttention = {"sdpa", "eager"};

struct ConvertFlags {
  std::string model, output = "model.pt2", task, dtype, attention, batch = "2", length = "128", python;
  bool trusts = false, padding = false;
};

// That of the environment that memtune is installed in, if there is one.
std::string default_python() {
  const char* const python = std::getenv("MEMTUNE_PYTHON");
  return python && *python ? python : "python3";
}

std::vector<std::string> words_of(const ConvertFlags& flags) {
  std::vector<std::string> words = {flags.python.empty() ? default_python() : flags.python,
                                    "-c",
                                    std::string(model::convert_program()),
                                    flags.model,
                                    "--output",
                                    flags.output,
                                    "--batch",
                                    std::to_string(integer_flag("--batch", flags.batch, 2, 1 << 20)),
                                    "--seq",
                                    std::to_string(integer_flag("--seq", flags.length, 4, 1 << 24))};
  if (!flags.task.empty()) words.insert(words.end(), {"--task", choice_flag("--task", flags.task, kTasks)});
  if (!flags.dtype.empty()) words.insert(words.end(), {"--dtype", dtype_flag("--dtype", flags.dtype, kDtypes)});
  if (!flags.attention.empty())
    words.insert(words.end(), {"--attention", choice_flag("--attention", flags.attention, kAttention)});
  if (flags.padding) words.push_back("--padding");
  if (flags.trusts) words.push_back("--trust-remote-code");
  return words;
}

int run_python(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execvp(pointers[0], pointers.data());
  throw UsageError("--python " + words[0] + ": " + std::string(std::strerror(errno)));
}

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command = app.add_subcommand("convert", kConvertDescription);
  command->add_option("MODEL", flags->model, "folder, config.json, or name on the hub")->required()->type_name(" ");
  command->add_option("-o,--output", flags->output, "the program (default: model.pt2)")->type_name("FILE");
  offer(command->add_option("--task", flags->task, "what is trained (default: the config's architectures)"), kTasks)
      ->type_name("TASK");
  command->add_option("--batch", flags->batch, "rows of the sample (default: 2)")->type_name("N");
  command->add_option("--seq", flags->length, "tokens in a row of the sample (default: 128)")->type_name("N");
  offer(command->add_option("--dtype", flags->dtype, "of the parameters (default: the config's)"), kDtypes)
      ->type_name("TYPE");
  offer(command->add_option("--attention", flags->attention, "implementation (default: that of transformers)"),
        kAttention)
      ->type_name("NAME");
  command
      ->add_option("--python", flags->python,
                   "the Python that trains (default: python3, or that which memtune is installed in)")
      ->type_name("PROGRAM");
  command->add_flag("--padding", flags->padding,
                    "the program takes an attention_mask, which tells where rows have padding");
  command->add_flag("--trust-remote-code", flags->trusts, "run Python code that the model brings");
  command->callback([flags, &action] { action = [flags] { return run_python(words_of(*flags)); }; });
}

}  // namespace memtune::cli
