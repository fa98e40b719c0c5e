// memtune-trial: one trial in a process of its own. See core/plan/request/trial_protocol.h.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/allocator_settings.h"
#include "core/base/device/cuda_module.h"
#include "core/base/device/torch/make_device.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/engine/autograd/hooks.h"
#include "core/engine/shard/collectives.h"
#include "core/engine/shard/torchrun_store_settings.h"
#include "core/measure/profiler/doctor.h"
#include "core/measure/profiler/loaded_torch.h"
#include "core/measure/profiler/machine_probe.h"
#include "core/measure/trial/sandbox.h"
#include "core/measure/trial/save_trial.h"
#include "core/measure/trial/training_run.h"
#include "core/measure/trial/trial.h"
#include "core/model/program/first_line.h"
#include "core/plan/request/resumable_training_request.h"
#include "core/plan/request/trial_protocol.h"
#include "core/plan/request/trial_request.h"

namespace {

using memtune::trial::TrialFrameWriter;

int usage() {
  std::fputs(
      "usage: memtune-trial inspect|run|train|save REQUEST.json | doctor|probe|later [cpu|cuda|cuda:N] |\n"
      "       memtune-trial announce HOST PORT PREFIX RANK MILLISECONDS [TEXT]\n"
      "memtune starts it; by hand it writes its frames to stdout.\n",
      stderr);
  return 2;
}

template <class Request>
Request read_request(const std::string& path) {
  return memtune::parse_json(memtune::read_file(path)).get<Request>();
}

// From now on the process can write only into the folders of the request's results and its scratch folder.
void begin(const memtune::plan::TrialRequest& request, std::vector<std::filesystem::path> folders = {}) {
  for (const std::string& file : {request.envelope.trace, request.envelope.costs, request.envelope.reference})
    if (!file.empty()) folders.push_back(std::filesystem::absolute(file).parent_path());
  if (!request.training.scratch.empty()) folders.emplace_back(request.training.scratch);
  if (!memtune::trial::restrict_writes_to(folders))
    std::fputs("this kernel has no Landlock: the model may write wherever you may\n", stderr);
  memtune::trial::exit_when_reader_closes(memtune::plan::kFrameDescriptor);
}

// Threads of Gloo and NCCL end the process if ranks request different collectives, or one is missing. The reason is
// sent before that.
void print_why_ranks_end(const memtune::plan::TrialRequest& request, TrialFrameWriter& frames) {
  static TrialFrameWriter* told = nullptr;
  static std::string waited;
  static std::terminate_handler former = nullptr;
  told = &frames;
  waited = "rank " + std::to_string(request.envelope.rank) + " waited " +
           memtune::seconds_text(std::chrono::milliseconds(request.training.rank_timeout_ms)) +
           " for the others on the device";
  former = std::set_terminate([] {
    try {
      if (const auto error = std::current_exception()) std::rethrow_exception(error);
    } catch (const std::exception& error) {
      if (memtune::shard::is_order_mismatch(error)) {
        told->send({{"frame", "error"}, {"message", memtune::shard::kOrdersDiffer}});
        std::_Exit(1);
      }
      if (memtune::shard::is_missing_rank(error)) {
        told->send({{"frame", "rank"}, {"timed_out", true}, {"message", waited}});
        std::_Exit(1);
      }
    } catch (...) {
    }
    former();
  });
}

// To be called while the process may still open connections. Null: there is one rank.
std::unique_ptr<memtune::shard::Collectives> join_process_group(const memtune::plan::TrialRequest& request) {
  const auto& training = request.training;
  if (training.ranks == 1) return nullptr;
  memtune::shard::ProcessGroupSettings settings{
      request.envelope.rank,       training.ranks,
      request.envelope.rendezvous, std::chrono::milliseconds(training.rank_timeout_ms),
      request.envelope.address,    memtune::plan::kRendezvousDescriptor};
  if (training.device != "cpu") settings.device = memtune::device::make_device(training.device)->index();
  return memtune::shard::connect(settings);
}

void inspect(const std::string& path, TrialFrameWriter& frames) {
  const auto request = read_request<memtune::plan::TrialRequest>(path);
  begin(request);
  memtune::trial::inspect(request, frames);
}

// With several ranks the runner is never destroyed: it would wait for collectives of a lost rank, and delay the answer.
std::shared_ptr<memtune::trial::ForwardBackwardRunner> endless(
    std::unique_ptr<memtune::trial::ForwardBackwardRunner> runner, int ranks) {
  if (ranks == 1) return runner;
  return {runner.release(), [](memtune::trial::ForwardBackwardRunner*) {}};
}

// PyTorch reads them when its allocator is made.
void set_allocator(const std::string& settings) {
  if (settings.empty()) return;
  const std::string variable = memtune::allocator_environment(settings);
  const size_t name_end = variable.find('=');
  setenv(variable.substr(0, name_end).c_str(), variable.c_str() + name_end + 1, 1);
}

void run_trial(const std::string& path, TrialFrameWriter& frames) {
  const auto request = read_request<memtune::plan::TrialRequest>(path);
  set_allocator(request.envelope.allocator);
  auto ranks = join_process_group(request);
  if (ranks) print_why_ranks_end(request, frames);
  begin(request);
  frames.phase("load", 1, 1);
  const auto runner = endless(memtune::trial::make_runner(request, std::move(ranks)), request.training.ranks);
  auto measurement = memtune::trial::run_trial(request, *runner, frames);
  frames.send({{"frame", "result"}, {"measurement", measurement}});
}

std::shared_ptr<memtune::trial::ForwardBackwardRunner> ready_runner(
    const memtune::plan::ResumableTrainingRequest& request, TrialFrameWriter& frames) {
  auto ranks = join_process_group(request.trial);
  if (ranks) print_why_ranks_end(request.trial, frames);
  begin(request.trial, {request.folder});
  frames.phase("load", 1, 1);
  return endless(memtune::trial::make_runner(request.trial, std::move(ranks)), request.trial.training.ranks);
}

void train(const std::string& path, TrialFrameWriter& frames) {
  const auto request = read_request<memtune::plan::ResumableTrainingRequest>(path);
  const auto runner = ready_runner(request, frames);
  const auto training = memtune::trial::train(request, *runner, frames);
  frames.send({{"frame", "trained"}, {"training", training}});
}

void measure_saves(const std::string& path, TrialFrameWriter& frames) {
  const auto request = read_request<memtune::plan::ResumableTrainingRequest>(path);
  const auto runner = ready_runner(request, frames);
  const auto measured = memtune::trial::measure_saves(request, *runner, frames);
  frames.send({{"frame", "saves"}, {"saves", measured}});
}

void doctor(const std::string& device, TrialFrameWriter& frames) {
  nlohmann::json checks = nlohmann::json::array();
  for (const auto& check : memtune::profiler::run_doctor(device))
    checks.push_back({{"name", check.name},
                      {"status", memtune::profiler::to_string(check.status)},
                      {"detail", check.detail},
                      {"fix", check.fix}});
  frames.send({{"frame", "doctor"}, {"checks", checks}});
}

void announce(const std::vector<std::string>& words, TrialFrameWriter& frames) {
  const memtune::shard::TorchrunStoreSettings store{
      words[0], static_cast<int>(memtune::parse_integer(words[1], "port")), words[2],
      static_cast<int>(memtune::parse_integer(words[3], "rank")),
      std::chrono::milliseconds(memtune::parse_integer(words[4], "milliseconds"))};
  frames.send({{"frame", "announced"}, {"text", memtune::shard::announce(store, words.size() > 5 ? words[5] : "")}});
}

void probe(const std::string& name, TrialFrameWriter& frames) {
  const auto device = memtune::device::make_device(name);
  const auto machine =
      memtune::profiler::probe_machine(*device, [&](const std::string& what) { frames.phase("probe", 0, 0, what); });
  frames.send({{"frame", "machine"}, {"machine", machine}});
}

// Makes no context on the device. The trial that needs what cannot be loaded reports it.
void load_libraries(const std::string& device) try {
  if (device.starts_with("cuda")) memtune::device::load_cuda_libraries();
} catch (const memtune::Error&) {
}

std::vector<std::string> wait_for_words() {
  std::string line;
  if (!std::getline(std::cin, line)) std::_Exit(0);
  if (!std::freopen("/dev/null", "r", stdin)) std::_Exit(1);  // the model has no input
  return memtune::parse_json(line).get<std::vector<std::string>>();
}

int run(std::vector<std::string> words, TrialFrameWriter& frames) {
  if (words.size() <= 2 && !words.empty() && words[0] == "later") {
    if (words.size() == 2) load_libraries(words[1]);
    words = wait_for_words();
  }
  const std::string command = words.empty() ? "" : words[0], argument = words.size() > 1 ? words[1] : "";
  if (command == "doctor") {
    doctor(argument.empty() ? "cpu" : argument, frames);
  } else if (command == "probe") {
    probe(argument.empty() ? "cpu" : argument, frames);
  } else if (command == "announce" && (words.size() == 6 || words.size() == 7)) {
    announce({words.begin() + 1, words.end()}, frames);
  } else if (command == "inspect" && words.size() == 2) {
    inspect(argument, frames);
  } else if (command == "run" && words.size() == 2) {
    run_trial(argument, frames);
  } else if (command == "train" && words.size() == 2) {
    train(argument, frames);
  } else if (command == "save" && words.size() == 2) {
    measure_saves(argument, frames);
  } else {
    return usage();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit then fails with a reason
  TrialFrameWriter frames;
  int status = 1;
  try {
    memtune::profiler::check_loaded_torch();
    memtune::autograd::install_engine();
    status = run({argv + 1, argv + argc}, frames);
  } catch (const memtune::UsageError& error) {
    frames.send({{"frame", "usage"}, {"message", error.what()}});
    status = 2;
  } catch (const memtune::OutOfHostMemoryError& error) {
    frames.send({{"frame", "error"}, {"outcome", "host_oom"}, {"message", error.what()}});
  } catch (const c10::OutOfMemoryError& error) {
    const std::string message = "out of device memory in load: " + memtune::program::first_line(error);
    frames.send({{"frame", "error"}, {"outcome", "device_oom"}, {"message", message}});
  } catch (const std::bad_alloc&) {
    const std::string message = "out of host memory; " + memtune::memory_limit();
    frames.send({{"frame", "error"}, {"outcome", "host_oom"}, {"message", message}});
  } catch (const memtune::DiskFullError& error) {
    frames.send({{"frame", "error"}, {"outcome", "disk_full"}, {"message", error.what()}});
  } catch (const memtune::shard::RankTimeoutError& error) {
    frames.send({{"frame", "rank"}, {"timed_out", true}, {"message", error.what()}});
  } catch (const memtune::shard::RankLostError& error) {
    frames.send({{"frame", "rank"}, {"timed_out", false}, {"message", error.what()}});
  } catch (const std::exception& error) {
    frames.send({{"frame", "error"}, {"message", memtune::program::first_line(error)}});
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fflush(nullptr);
  std::_Exit(status);  // the kernel does all that destructors of LibTorch and CUDA would do
}
