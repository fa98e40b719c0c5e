// memtune-trial: one trial in a process of its own. See core/config/trial_protocol.h.
#include <sys/prctl.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/autograd/hooks.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/profiler/doctor.h"
#include "core/program/first_line.h"
#include "core/trial/session.h"
#include "core/trial/trial.h"

namespace {

using memtune::trial::Frames;

int usage() {
  std::fputs(
      "usage: memtune-trial inspect|run REQUEST.json | doctor [cpu|cuda|cuda:N]\n"
      "memtune starts it; by hand it writes its frames to stdout.\n",
      stderr);
  return 2;
}

memtune::config::TrialRequest read_request(const char* path) {
  return memtune::parse_json(memtune::read_file(path)).get<memtune::config::TrialRequest>();
}

void doctor(const std::string& device, Frames& frames) {
  nlohmann::json checks = nlohmann::json::array();
  for (const auto& check : memtune::profiler::run_doctor(device))
    checks.push_back({{"name", check.name},
                      {"status", memtune::profiler::to_string(check.status)},
                      {"detail", check.detail},
                      {"fix", check.fix}});
  frames.send({{"frame", "doctor"}, {"checks", checks}});
}

int run(int argc, char** argv, Frames& frames) {
  std::string command = argc > 1 ? argv[1] : "";
  if (command == "doctor") {
    doctor(argc > 2 ? argv[2] : "cpu", frames);
  } else if (command == "inspect" && argc == 3) {
    memtune::trial::inspect(read_request(argv[2]), frames);
  } else if (command == "run" && argc == 3) {
    const memtune::config::TrialRequest request = read_request(argv[2]);
    frames.phase("load", 1, 1);
    const auto runner = memtune::trial::make_runner(request);
    auto measurement = memtune::trial::run_trial(request, *runner, frames);
    frames.send({{"frame", "result"}, {"measurement", measurement}});
  } else {
    return usage();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for a trial whose sweep is gone
  std::signal(SIGPIPE, SIG_IGN);
  memtune::autograd::install_engine();
  Frames frames;
  int status = 1;
  try {
    status = run(argc, argv, frames);
  } catch (const memtune::UsageError& error) {
    frames.send({{"frame", "usage"}, {"message", error.what()}});
    status = 2;
  } catch (const std::exception& error) {
    frames.send({{"frame", "error"}, {"message", memtune::program::first_line(error)}});
    std::fprintf(stderr, "%s\n", error.what());
  }
  std::fflush(nullptr);
  std::_Exit(status);  // LibTorch's and CUDA's destructors have nothing left to do that the kernel does not
}
