// Traces kernels and copies of a process that is not memtune's. The driver loads this library if CUDA_INJECTION64_PATH
// names it. It does nothing until the shim of core/measure/attach, in the same process, requests a trace. No function
// throws.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>

#include "core/measure/profiler/cupti_session.h"
#include "core/record/trace/file.h"

namespace {

using memtune::profiler::CuptiProfiler;

std::unique_ptr<CuptiProfiler>& session() {
  static auto* session = new std::unique_ptr<CuptiProfiler>;  // CUPTI may call back while the process ends
  return *session;
}

int fail(const std::exception& error, char* text, size_t size) {
  std::snprintf(text, size, "%s", error.what());
  session().reset();
  return 1;
}

}  // namespace

extern "C" {

// Called by the driver. 1 means success.
__attribute__((visibility("default"))) int InitializeInjection() { return 1; }

// Returns 0, or 1 with the reason in `error`. To be called by the training thread.
__attribute__((visibility("default"))) int memtune_begin_trace(char* error, size_t size) try {
  session() = std::make_unique<CuptiProfiler>(false);
  session()->start();
  return 0;
} catch (const std::exception& problem) {
  return fail(problem, error, size);
}

// Nanoseconds since the start of the trace; -1: there is none.
__attribute__((visibility("default"))) int64_t memtune_trace_ns() try {
  return session() ? session()->now_ns() : -1;
} catch (const std::exception&) {
  return -1;
}

// Waits for the device and writes its events as a trace file. Returns as memtune_begin_trace().
__attribute__((visibility("default"))) int memtune_end_trace(const char* path, char* error, size_t size) try {
  memtune::trace::Trace trace;
  if (session()) session()->finish(trace);
  session().reset();
  memtune::trace::write_trace(path, trace);
  return 0;
} catch (const std::exception& problem) {
  return fail(problem, error, size);
}

}  // extern "C"
