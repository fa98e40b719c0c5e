#include "gui/platform/offscreen.h"

#define EGL_NO_X11
#include <EGL/egl.h>
#include <EGL/eglext.h>
#include <dlfcn.h>
#include <imgui.h>
#include <imgui_impl_opengl3.h>
#define IMGL3W_IMPL_NONE
#include <imgui_impl_opengl3_loader.h>

#include <array>

#include "core/base/error.h"

namespace memtune::gui {
namespace {

constexpr EGLint kConfig[] = {EGL_SURFACE_TYPE,
                              EGL_PBUFFER_BIT,
                              EGL_RENDERABLE_TYPE,
                              EGL_OPENGL_BIT,
                              EGL_RED_SIZE,
                              8,
                              EGL_GREEN_SIZE,
                              8,
                              EGL_BLUE_SIZE,
                              8,
                              EGL_NONE};
constexpr EGLint kContext[] = {
    EGL_CONTEXT_MAJOR_VERSION,           3,       EGL_CONTEXT_MINOR_VERSION, 3, EGL_CONTEXT_OPENGL_PROFILE_MASK,
    EGL_CONTEXT_OPENGL_CORE_PROFILE_BIT, EGL_NONE};

}  // namespace

// EGL's functions, loaded on first use, because the viewer also starts on machines without EGL.
struct EglLibrary {
  decltype(&eglGetProcAddress) get_proc_address;
  decltype(&eglInitialize) initialize;
  decltype(&eglBindAPI) bind_api;
  decltype(&eglChooseConfig) choose_config;
  decltype(&eglCreatePbufferSurface) create_surface;
  decltype(&eglCreateContext) create_context;
  decltype(&eglMakeCurrent) make_current;
  decltype(&eglDestroyContext) destroy_context;
  decltype(&eglDestroySurface) destroy_surface;

  EglLibrary() {
    void* library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_GLOBAL);  // never closed: drivers cannot be unloaded
    if (!library) throw DeviceError("no EGL on this machine (Debian: libegl1 libgl1-mesa-dri)");
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    find(get_proc_address, "eglGetProcAddress");
    find(initialize, "eglInitialize");
    find(bind_api, "eglBindAPI");
    find(choose_config, "eglChooseConfig");
    find(create_surface, "eglCreatePbufferSurface");
    find(create_context, "eglCreateContext");
    find(make_current, "eglMakeCurrent");
    find(destroy_context, "eglDestroyContext");
    find(destroy_surface, "eglDestroySurface");
  }
};

struct Offscreen::Egl : EglLibrary {
  EGLDisplay display = EGL_NO_DISPLAY;
  EGLSurface surface = EGL_NO_SURFACE;
  EGLContext context = EGL_NO_CONTEXT;

  Egl(int width, int height) {
    for (EGLDisplay candidate : displays())
      if (use(candidate, width, height)) return;
    throw DeviceError("EGL gives no OpenGL 3.3 here (Debian: libgl1-mesa-dri draws in software)");
  }
  ~Egl() {
    make_current(display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    destroy_context(display, context);
    destroy_surface(display, surface);
  }

  // Devices first, which GPU drivers provide; then Mesa's surfaceless platform.
  std::vector<EGLDisplay> displays() const {
    std::vector<EGLDisplay> found;
    const auto get = reinterpret_cast<PFNEGLGETPLATFORMDISPLAYEXTPROC>(get_proc_address("eglGetPlatformDisplayEXT"));
    const auto query = reinterpret_cast<PFNEGLQUERYDEVICESEXTPROC>(get_proc_address("eglQueryDevicesEXT"));
    if (!get) return found;
    std::array<EGLDeviceEXT, 16> devices{};
    EGLint count = 0;
    if (query && query(devices.size(), devices.data(), &count))
      for (EGLint i = 0; i < count; ++i) found.push_back(get(EGL_PLATFORM_DEVICE_EXT, devices[i], nullptr));
    found.push_back(get(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY, nullptr));
    return found;
  }

  // Makes an OpenGL 3.3 context current. False if the display has none.
  bool use(EGLDisplay candidate, int width, int height) {
    if (candidate == EGL_NO_DISPLAY || !initialize(candidate, nullptr, nullptr)) return false;
    const EGLint size[] = {EGL_WIDTH, width, EGL_HEIGHT, height, EGL_NONE};
    EGLConfig config = nullptr;
    EGLint count = 0;
    if (!bind_api(EGL_OPENGL_API) || !choose_config(candidate, kConfig, &config, 1, &count) || count == 0) return false;
    display = candidate;
    surface = create_surface(display, config, size);
    context = create_context(display, config, EGL_NO_CONTEXT, kContext);
    return context != EGL_NO_CONTEXT && make_current(display, surface, surface, context) == EGL_TRUE;
  }
};

Offscreen::Offscreen(int width, int height) : egl_(new Egl(width, height)), width_(width), height_(height) {
  ImGui_ImplOpenGL3_Init("#version 330");
}

Offscreen::~Offscreen() { ImGui_ImplOpenGL3_Shutdown(); }

void Offscreen::frame(const std::function<void()>& draw) {
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = {static_cast<float>(width_), static_cast<float>(height_)};
  io.DeltaTime = 1.0F / 60;
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  draw();
  ImGui::Render();
  glViewport(0, 0, width_, height_);
  const ImVec4 ground = ground_color();
  glClearColor(ground.x, ground.y, ground.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  std::array<uint8_t, 4> pixel{};  // reading a pixel waits for all drawing
  glReadPixels(0, 0, 1, 1, GL_RGBA, GL_UNSIGNED_BYTE, pixel.data());
}

Picture Offscreen::picture() const {
  const size_t pixels = static_cast<size_t>(width_) * static_cast<size_t>(height_);
  std::vector<uint8_t> rgba(pixels * 4);
  glReadPixels(0, 0, width_, height_, GL_RGBA, GL_UNSIGNED_BYTE, rgba.data());
  Picture picture{width_, height_, std::vector<uint8_t>(pixels * 3)};
  const auto row = static_cast<size_t>(width_);
  for (size_t i = 0; i < pixels; ++i) {
    const size_t from = (static_cast<size_t>(height_) - 1 - i / row) * row + i % row;  // OpenGL counts from below
    for (size_t c = 0; c < 3; ++c) picture.rgb[3 * i + c] = rgba[4 * from + c];
  }
  return picture;
}

}  // namespace memtune::gui
