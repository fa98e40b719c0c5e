// Forwards the calls of CUPTI and CUDA by CuptiProfiler to the libraries that the process has loaded, because their
// version is not known in advance. PyTorch brings CUPTI along. The records that are read have begun with the same
// fields since CUDA 12.0.
#include <cuda_runtime.h>
#include <cupti.h>
#include <dlfcn.h>

namespace {

void* loaded(const char* const* names) {
  for (; *names; ++names)
    if (void* library = dlopen(*names, RTLD_LAZY | RTLD_NOLOAD)) return library;
  return nullptr;
}

void* cupti() {
  static constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", nullptr};
  static void* const library = loaded(kNames);
  return library;
}

void* driver() {
  static constexpr const char* kNames[] = {"libcuda.so.1", nullptr};
  static void* const library = loaded(kNames);
  return library;
}

template <typename Function, typename... Arguments>
CUptiResult pass(Function*, const char* name, Arguments... arguments) {
  void* const found = cupti() ? dlsym(cupti(), name) : nullptr;
  return found ? reinterpret_cast<Function*>(found)(arguments...) : CUPTI_ERROR_NOT_INITIALIZED;
}

}  // namespace

#define MEMTUNE_PASS(function, ...) return pass(&function, #function __VA_OPT__(, ) __VA_ARGS__)

extern "C" {

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) { MEMTUNE_PASS(cuptiActivityEnable, kind); }
CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) { MEMTUNE_PASS(cuptiActivityDisable, kind); }
CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) { MEMTUNE_PASS(cuptiActivityFlushAll, flag); }
CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t* time) { MEMTUNE_PASS(cuptiGetTimestamp, time); }

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t* buffer, size_t bytes, CUpti_Activity** record) {
  MEMTUNE_PASS(cuptiActivityGetNextRecord, buffer, bytes, record);
}
CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t* dropped) {
  MEMTUNE_PASS(cuptiActivityGetNumDroppedRecords, context, stream, dropped);
}
CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                                    CUpti_BuffersCallbackCompleteFunc completed) {
  MEMTUNE_PASS(cuptiActivityRegisterCallbacks, requested, completed);
}
CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t* bytes, void* value) {
  MEMTUNE_PASS(cuptiActivitySetAttribute, attribute, bytes, value);
}
CUptiResult CUPTIAPI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  MEMTUNE_PASS(cuptiActivityPushExternalCorrelationId, kind, id);
}
CUptiResult CUPTIAPI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* last) {
  MEMTUNE_PASS(cuptiActivityPopExternalCorrelationId, kind, last);
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result, const char** text) {
  if (!cupti()) {
    *text = "the process has loaded no CUPTI";
    return CUPTI_SUCCESS;
  }
  MEMTUNE_PASS(cuptiGetResultString, result, text);
}

cudaError_t CUDARTAPI cudaDeviceSynchronize() {
  void* const found = driver() ? dlsym(driver(), "cuCtxSynchronize") : nullptr;
  return found && reinterpret_cast<int (*)()>(found)() == 0 ? cudaSuccess : cudaErrorUnknown;
}
cudaError_t CUDARTAPI cudaGetLastError() { return cudaSuccess; }
const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "the driver failed"; }
const char* CUDARTAPI cudaGetErrorName(cudaError_t) { return "cuCtxSynchronize"; }

}  // extern "C"
