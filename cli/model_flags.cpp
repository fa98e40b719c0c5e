#include "cli/model_flags.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "core/base/device/cuda_module.h"
#include "core/base/embedded_json_preset.h"
#include "core/base/error.h"
#include "core/base/open_file.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"
#include "core/model/pt2/parsed_pt2_program.h"
#include "core/model/pt2/pt2_archive.h"
#include "core/model/source/builtin_model_config_and_input_shape.h"
#include "core/model/source/detected_model_format.h"
#include "core/model/transformers/hub_cache.h"
#include "core/model/transformers/transformers_config.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::cli {
namespace {

namespace fs = std::filesystem;
using sweep::EngineSweepSettings;

constexpr char kDefaultModel[] = "small";
constexpr int64_t kMaxSteps = 1'000'000;
constexpr int64_t kConfigBatch = 2, kConfigSequence = 128;  // defaults of --batch and --seq

[[noreturn]] void no_such_model(const std::string& text) {
  const std::vector<std::string> names = profile_names("models");
  const std::string near = nearest(text, names);
  const bool of_hub = model::is_hub_name(text) && !text.ends_with(".pt") && !text.ends_with(".pt2");
  throw UsageError("no such file or profile: '" + text + "'" + (near.empty() ? "." : "; did you mean '" + near + "'?") +
                   (of_hub ? " No model of that name was downloaded to " + model::hub_cache().string() +
                                 ": hf download " + text + " downloads it; its config.json is enough."
                           : "") +
                   " Profiles: " + join(names, ", "));
}

// Checks that need no LibTorch. The trial process makes the others when it loads the model.
model::DetectedModelFormat check_file(const std::string& path) {
  model::DetectedModelFormat file = model::inspect_model_file(path);
  if (!file.unusable_reason.empty()) model::refuse_model(path, file.unusable_reason);
  return file;
}

bool cuda_driver_is_there() {
  if (fs::exists("/dev/nvidia0") || fs::exists("/proc/driver/nvidia/version")) return true;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver) dlclose(driver);
  return driver != nullptr;
}

// True without an engine too: its command then says that there is none.
bool cuda_is_built() try {
  return fs::exists(sweep::find_trial_program().parent_path() / device::kCudaModule);
} catch (const UsageError&) {
  return true;
}

double parse_padding(const std::string& text) {
  const double part = parse_number(text, "--padding");
  if (!(part >= 0 && part <= 0.5)) throw UsageError("--padding: " + text + " is out of range; it takes 0 to 0.5");
  return part;
}

// Reads where offloaded tensors go.
void read_tiers(const ModelFlags& flags, plan::TrainingSettings& training) {
  if (!flags.host_budget.empty()) training.host_budget_bytes = bytes_flag("--host-budget", flags.host_budget);
  if (!flags.disk_budget.empty()) training.disk_budget_bytes = bytes_flag("--disk-budget", flags.disk_budget);
  training.scratch_in_memory = flags.scratch_in_memory;
  if (flags.scratch.empty()) {
    if (!flags.disk_budget.empty() || flags.scratch_in_memory)
      throw UsageError("--disk-budget and --scratch-in-memory go with --scratch DIR, which is missing");
    return;
  }
  if (!fs::is_directory(flags.scratch)) throw UsageError("--scratch: no such folder: " + flags.scratch);
  training.scratch = fs::absolute(flags.scratch).string();
}

plan::TrainingSettings training_settings(const ModelFlags& flags) {
  plan::TrainingSettings training;
  flags.training.read(training);
  training.attention = flags.attention.empty() ? "" : choice_flag("--attention", flags.attention, kAttentions);
  training.pack = flags.pack;
  training.padding = parse_padding(flags.padding);
  training.steps = static_cast<int>(integer_flag("--steps", flags.steps, 1, kMaxSteps));
  training.warmup = static_cast<int>(integer_flag("--warmup", flags.warmup, 0, kMaxSteps));
  if (!flags.memory_cap.empty()) training.memory_cap_bytes = bytes_flag("--memory-cap", flags.memory_cap);
  training.blocks = flags.blocks;
  read_tiers(flags, training);
  flags.ranks.read(training);
  return training;
}

void read_inputs(const ModelFlags& flags, plan::TrialRequest& request) {
  const bool specs = !std::ranges::all_of(flags.inputs, plan::is_argument);
  if (specs && !flags.inputs_file.empty()) {
    throw UsageError("--input and --inputs exclude each other: inputs are synthetic or come from a file");
  }
  for (const std::string& input : flags.inputs)
    if (plan::is_argument(input))
      request.model.arguments.push_back(input);
    else
      request.model.inputs.push_back(plan::parse_input_spec(input));
  if (flags.inputs_file.empty()) return;
  require_file("--inputs", flags.inputs_file);
  if (!flags.batches.empty() || !flags.sequences.empty()) {
    throw UsageError("--batch and --seq go with synthetic inputs: those of --inputs have their sizes");
  }
  if (request.training.padding > 0)
    throw UsageError("--padding goes with synthetic inputs: those of --inputs have an attention_mask of their own");
  if (request.training.ranks > 1)
    throw UsageError("--inputs does not go with --ranks: each rank has synthetic samples of its own");
  request.model.inputs_file = fs::absolute(flags.inputs_file).string();
}

void add_libraries(const std::vector<std::string>& paths, plan::ModelAndInputSource& model) {
  for (const std::string& path : paths) {
    require_file("--library", path);
    model.libraries.push_back(fs::absolute(path).string());
  }
}

// Losses of rows take a layer of their own, others need the logits that the class gives.
void check_class(const model::TransformersConfig& model, const std::string& loss) {
  const bool of_rows = loss == "reward" || loss == "embedding";
  if (of_rows || (!model.headless() && !model.classifier)) return;
  if (model.headless())
    throw UsageError("--loss " + loss + ": " + model.class_name +
                     " gives vectors of tokens, no logits; it takes --loss embedding or reward");
  if (loss != "returned" && loss != "cross_entropy" && loss != "mse")
    throw UsageError("--loss " + loss + ": " + model.class_name +
                     " gives no logits of tokens; its own loss is --loss returned");
}

std::vector<plan::InputSpec> in_columns(const plan::InputSpec& tokens) {
  std::vector<plan::InputSpec> specs;
  for (const std::string& column : kPairColumns) {
    specs.push_back(tokens);
    specs.back().name = column + "_" + tokens.name;
  }
  return specs;
}

// A config defines what other model files leave open: tokens, loss, dtype.
void use_decoder(const model::TransformersConfig& model, const plan::InputSpec& tokens, plan::TrialRequest& request) {
  std::string& loss = request.training.loss;
  if (loss.empty()) loss = model.classifier ? "returned" : model.headless() ? "embedding" : "causal_lm";
  check_class(model, loss);
  if (request.model.inputs.empty() && request.model.inputs_file.empty())
    request.model.inputs = loss == "embedding" ? in_columns(tokens) : std::vector{tokens};
  if (request.training.attention.empty()) request.training.attention = model.attention;
  const plan::TrainingSettings& training = request.training;
  model::check_attention(model, training.attention, training.pack, training.padding > 0);
  if (request.training.dtype.empty()) request.training.dtype = model.dtype;
}

void use_profile(const std::string& name, EngineSweepSettings& settings) {
  if (const auto& numbers = settings.request.model.arguments; !numbers.empty())
    throw UsageError("--input " + numbers.front() + ": the profile '" + name + "' takes tokens alone");
  const EmbeddedJsonPreset& text = find_profile("models", name);
  const model::BuiltinModelConfigAndInputShape profile = model::parse_model_profile(name, text.json);
  settings.model = name + " (profile)";
  settings.request.model.profile = text.json;
  use_decoder(profile.model, model::tokens_of(profile), settings.request);
}

void use_config(const fs::path& path, const std::string& name, EngineSweepSettings& settings) {
  plan::TrialRequest& request = settings.request;
  if (const auto& numbers = request.model.arguments; !numbers.empty())
    throw UsageError("--input " + numbers.front() + ": a model of a config.json takes tokens alone");
  const model::TransformersConfig model = model::read_transformers_config(path, request.model.text_only);
  settings.model = name + " (" + std::string(model.family.model_type) + ")";
  for (const std::string& note : model.notes) settings.notes.push_back(name + ": " + note);
  std::string& load_in = request.training.load_in;
  if (load_in.empty()) load_in = model.quantization;
  if (!model.quantization.empty() && load_in != model.quantization)
    throw UsageError("--load-in " + load_in + ": the weights of " + name + " are stored in " + model.quantization);
  model::check_load_in(model, load_in);
  use_decoder(model, {"input_ids", "int64", {kConfigBatch, kConfigSequence}, model.tokens()}, request);
}

// Finds a damaged archive without LibTorch, and whether the model returns a loss.
void look_at_exported(const fs::path& path, EngineSweepSettings& settings) try {
  const model::ParsedPt2Program program = model::read_pt2_program(model::Pt2Archive(path));
  if (settings.request.training.loss.empty() && has_part(program.answer, "loss"))
    settings.request.training.loss = "returned";
} catch (const UsageError& error) {
  model::refuse_model(path, error.what());
}

// A recorded program is fixed, so these flags do not change it.
void check_attention(const ModelFlags& flags, const EngineSweepSettings& settings) {
  const plan::ModelAndInputSource& model = settings.request.model;
  const bool config = !model.profile.empty() || model.path.ends_with(".json");
  for (const auto& [flag, asked] : {std::pair("--attention", !flags.attention.empty()), std::pair("--pack", flags.pack),
                                    std::pair("--padding", settings.request.training.padding > 0)})
    if (asked && !config)
      throw UsageError(std::string(flag) + " is for models built from their config.json; this model is fixed");
}

void check_text_only(const ModelFlags& flags, const EngineSweepSettings& settings) {
  if (flags.text_only && !settings.request.model.path.ends_with(".json"))
    throw UsageError("--text-only is for models with a config.json; this one is fixed");
}

void choose_model(const ModelFlags& flags, EngineSweepSettings& settings) {
  if (flags.model.empty()) {
    settings.notes.push_back(std::string("no --model: using the built-in profile '") + kDefaultModel +
                             "', a small decoder");
    return use_profile(kDefaultModel, settings);
  }
  const std::vector<std::string> names = profile_names("models");
  const bool is_profile = std::ranges::find(names, flags.model) != names.end();
  const auto cached = fs::exists(flags.model) ? std::nullopt : model::cached_model(flags.model);
  const fs::path given = cached.value_or(flags.model);
  // A folder is not a model, so it does not hide a profile of the same name.
  if (fs::exists(given) && !(is_profile && fs::is_directory(given))) {
    const model::DetectedModelFormat file = check_file(given);
    const bool of_config = !file.config.empty();
    const fs::path path = fs::absolute(of_config ? file.config : given);
    check_utf8("--model", path.string());
    settings.model = path.filename().string();
    settings.request.model.path = path.string();
    settings.request.model.trusted = flags.trust_model;
    settings.request.model.text_only = flags.text_only;
    add_libraries(flags.libraries, settings.request.model);
    if (of_config) {
      const fs::path folder = path.lexically_normal().parent_path();
      return use_config(path, cached ? flags.model : folder.filename().string(), settings);
    }
    if (file.exported) look_at_exported(path, settings);
    if (!settings.request.training.loss.empty()) return;
    throw UsageError("--loss is missing; a model file does not contain it. Known: " + join(kLosses, ", ") +
                     " (by the model, as its answer)");
  }
  if (!is_profile) no_such_model(flags.model);
  use_profile(flags.model, settings);
}

}  // namespace

std::string choose_device(const std::string& device, std::vector<std::string>& notes) {
  if (device == "cpu" || device == "cuda") return device;
  if (device.starts_with("cuda:")) {
    integer_flag("--device cuda:N", device.substr(5), 0, 63);
    return device;
  }
  if (!device.empty()) throw UsageError("--device: unknown device '" + device + "'; it takes cpu, cuda or cuda:N");
  if (!cuda_driver_is_there()) return "cpu";
  if (cuda_is_built()) return "cuda";
  notes.emplace_back("a GPU driver is installed, but this build has no CUDA support: the CPU emulates a GPU");
  return "cpu";
}

std::vector<std::string> profile_names(std::string_view kind) {
  std::vector<std::string> names;
  for (const EmbeddedJsonPreset& profile : profiles()) {
    if (profile.kind == kind) names.emplace_back(profile.name);
  }
  return names;
}

std::vector<std::string> strategy_words() {
  std::vector<std::string> words;
  for (const plan::StrategyInfo& strategy : plan::strategies())
    words.push_back(
        to_string(plan::StrategyPart(strategy, strategy.kind == plan::StrategyKind::checkpoint_every ? 2 : 1)));
  return words;
}

void ModelFlags::add_to(CLI::App& command, const std::string& default_out) {
  out = default_out;
  const std::vector<std::string> profiles = profile_names("models");
  offer(
      command.add_option(
          "--model", model,
          "model: torch.export archive, TorchScript file, folder with a config.json, name on the Hugging Face hub, or "
          "profile: " +
              join(profiles, ", ")),
      profiles)
      ->type_name("FILE|PROFILE");
  add_list(command, "--input", inputs, "synthetic input: 'tokens:int64[4,4096]<32000'; or a number: 'steps=3'; repeat")
      ->type_name("SPEC");
  command.add_option("--inputs", inputs_file, "inputs from a safetensors file")->type_name("FILE");
  add_list(command, "--library", libraries, "shared object with custom operators of the model; repeat")
      ->type_name("FILE");
  command.add_flag("--trust-model", trust_model, "the model may reach files, processes and the network");
  command.add_flag("--text-only", text_only, "the text alone of a config or model that has images or sound too");
  offer(command.add_option(
            "--attention", attention,
            "attention of a config.json: sdpa, eager, or with --pack flash-varlen (default: the config's, or sdpa)"),
        kAttentions)
      ->type_name("HOW");
  command.add_flag("--pack", pack, "pack the samples of a batch into one row; for a config.json");
  command.add_option("--padding", padding, "share of padding in a batch: 0.25; for a config.json")->type_name("PART");
  training.add_to(command);
  command.add_option("--steps", steps, "measured steps per trial (default: 5)")->type_name("N");
  command
      .add_option("--warmup", warmup,
                  "steps before them, not measured (default: 2; with offloading at least 3, because one of them "
                  "teaches when to "
                  "copy)")
      ->type_name("N");
  offer(command.add_option("--device", device, "cpu, cuda or cuda:N (default: cuda if there is one)"), kDevices)
      ->type_name("DEVICE");
  command.add_option("--blocks", blocks, "module paths of the repeated blocks, if not found: 'layers.*'")
      ->type_name("GLOB");
  command.add_option("--memory-cap", memory_cap, "emulate a device of this size: 24GiB")->type_name("BYTES");
  command.add_option("--scratch", scratch, "folder for activations that are offloaded to disk")->type_name("DIR");
  command.add_option("--host-budget", host_budget, "host memory for offloaded activations: 64GiB")->type_name("BYTES");
  command.add_option("--disk-budget", disk_budget, "disk space for them (default: what is free)")->type_name("BYTES");
  command.add_flag("--scratch-in-memory", scratch_in_memory, "the scratch folder may be a tmpfs");
  command
      .add_option("--timeout", timeout,
                  "limit for one trial, of a command for the time without a step: 90s, 5m (default: 10m)")
      ->type_name("TIME");
  out_option = command.add_option(
      "--out", out, "folder for results (default: one for each question; " + default_out + " leads to the newest)");
  command.get_option("--out")->type_name("DIR");
  add_console_flags(command, console);
  put_under(kModelOptions, command,
            {"--model", "--input", "--inputs", "--loss", "--loss-impl", "--attention", "--pack", "--padding",
             "--target", "--output", "--library", "--trust-model", "--text-only", "--blocks"});
  put_under(kMeasuring, command, {"--steps", "--warmup", "--device", "--memory-cap", "--timeout"});
  put_under(kTiers, command, {"--scratch", "--host-budget", "--disk-budget", "--scratch-in-memory"});
}

EngineSweepSettings ModelFlags::settings(const sweep::CommonSweepSettings& loop) const {
  EngineSweepSettings settings;
  static_cast<sweep::CommonSweepSettings&>(settings) = loop;
  settings.request.training = training_settings(*this);
  settings.batches = integers_flag("--batch", batches);
  settings.sequences = integers_flag("--seq", sequences);
  settings.limit = duration_flag("--timeout", timeout);
  read_inputs(*this, settings.request);
  choose_model(*this, settings);
  check_attention(*this, settings);
  check_text_only(*this, settings);
  if (settings.request.training.attention.empty()) settings.request.training.attention = kAttentions.front();
  settings.request.training.device = choose_device(device, settings.notes);
  check_device_of_ranks(settings.request.training);
  plan::check_training(settings.request.training);
  check_out(out);
  check_utf8("--out", fs::absolute(out).string());
  settings.directory = out;
  return settings;
}

}  // namespace memtune::cli
