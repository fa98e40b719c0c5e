#include "core/base/device/cuda_module.h"

#include <dlfcn.h>

#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace memtune::device {
namespace {

std::string last_error() {
  const char* text = dlerror();
  std::string line = text ? text : "unknown error";
  line = line.substr(0, line.find('\n'));
  return line.size() > 240 ? line.substr(0, 240) + "..." : line;
}

void* open_module() {
  const auto beside = cuda_module_path();
  const bool there = std::filesystem::exists(beside);
  // Global, because LibTorch's CUDA libraries and this module must share every symbol.
  if (void* module = dlopen(there ? beside.c_str() : kCudaModule, RTLD_NOW | RTLD_GLOBAL)) return module;
  const std::string why = last_error();
  if (there) throw DeviceError(beside.string() + " cannot be loaded: " + why);
  throw DeviceError(std::string("no CUDA support here: ") + why +
                    "; build with -DMEMTUNE_CUDA=ON, or use --device cpu");
}

}  // namespace

std::filesystem::path cuda_module_path() { return executable_path().parent_path() / kCudaModule; }

namespace {

void* cuda_module() {
  static void* const module = open_module();
  return module;
}

}  // namespace

void load_cuda_libraries() { cuda_module(); }

void* cuda_symbol(const char* name) {
  void* const module = cuda_module();
  if (void* symbol = dlsym(module, name)) return symbol;
  throw DeviceError(std::string(kCudaModule) + " is of another build: " + last_error());
}

}  // namespace memtune::device
