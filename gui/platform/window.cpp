#include "gui/platform/window.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#define IMGL3W_IMPL_NONE
#include <imgui_impl_opengl3_loader.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "core/base/error.h"
#include "core/base/shell_line.h"
#include "gui/platform/context.h"
#include "gui/platform/window_place.h"

namespace memtune::gui {
namespace {

constexpr int kRestlessFrames = 4;    // drawn after the last input, until the sizes of windows and tables settle
constexpr double kRestSeconds = 0.5;  // then one frame per this time

std::string last_glfw_error() {
  const char* text = nullptr;
  glfwGetError(&text);
  return text ? text : "unknown";
}

// What to do on a machine without a display, with the first of the opened runs: a trace alone has no page.
std::string without_display(const Options& options) {
  namespace fs = std::filesystem;
  const std::string given = options.paths.empty() ? "memtune-run" : options.paths.front();
  const std::string picture = shell_line({"memtune", "view", given, "--screenshot", "out.png"}) + " draws a picture";
  if (!fs::is_directory(given)) return picture;
  char host[256] = "HOST";
  ::gethostname(host, sizeof host - 1);
  const fs::path page = fs::absolute(given).lexically_normal() / "view.html";
  return shell_line({"memtune", "report", given, "--html", "--interactive"}) +
         " writes a page for any browser, which " + shell_line({"scp", host + (":" + page.string()), "."}) +
         " fetches; " + picture;
}

// Initializes and terminates GLFW.
struct Glfw {
  explicit Glfw(const Options& options) {
    if (glfwInit()) return;
    const char* text = nullptr;
    const int code = glfwGetError(&text);
    const std::string ways = without_display(options);
    if (code == GLFW_PLATFORM_UNAVAILABLE) throw UsageError("there is no display here: " + ways);
    throw DeviceError("the display cannot be used (" + std::string(text ? text : "unknown") + "); " + ways);
  }
  ~Glfw() { glfwTerminate(); }
  Glfw(const Glfw&) = delete;
  Glfw& operator=(const Glfw&) = delete;
};

bool on_a_monitor(const WindowPlace& place) {
  int count = 0;
  GLFWmonitor** monitors = glfwGetMonitors(&count);
  return std::any_of(monitors, monitors + count, [&](GLFWmonitor* monitor) {
    int x = 0, y = 0, width = 0, height = 0;
    glfwGetMonitorWorkarea(monitor, &x, &y, &width, &height);
    return place.x + place.width / 2 >= x && place.x + place.width / 2 < x + width && place.y >= y &&
           place.y < y + height;
  });
}

class Window {
 public:
  Window(AppState& state, const Options& options) : state_(state) {
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    glfwWindowHint(GLFW_VISIBLE, GLFW_FALSE);
    window_ = glfwCreateWindow(options.width, options.height, "memtune", nullptr, nullptr);
    if (!window_) throw DeviceError("no window with OpenGL 3.3: " + last_glfw_error());
    if (!options.size_given) restore();
    glfwShowWindow(window_);
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
    glfwSetWindowUserPointer(window_, this);
    glfwSetDropCallback(window_, [](GLFWwindow* window, int count, const char** paths) {
      auto& self = *static_cast<Window*>(glfwGetWindowUserPointer(window));
      for (int i = 0; i < std::min(count, 2); ++i) open_path(self.state_, paths[i], i > 0);
    });
    ImGui_ImplGlfw_InitForOpenGL(window_, true);
    ImGui_ImplOpenGL3_Init("#version 330");
  }
  ~Window() {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    glfwDestroyWindow(window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  float content_scale() const {
    float x = 1, y = 1;
    glfwGetWindowContentScale(window_, &x, &y);
    return std::max(x, y);
  }

  void run() {
    int restless = kRestlessFrames;
    while (!glfwWindowShouldClose(window_) && !state_.quit) {
      restless > 0 ? glfwPollEvents() : glfwWaitEventsTimeout(kRestSeconds);
      draw();
      restless = had_input() ? kRestlessFrames : std::max(restless - 1, 0);
    }
    remember();
  }

 private:
  void tell_title() {
    const std::string title = window_title(state_);
    if (title == title_) return;
    glfwSetWindowTitle(window_, title.c_str());
    title_ = title;
  }

  void draw() {
    tell_title();
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    ImGui::NewFrame();
    draw_app(state_);
    ImGui::Render();
    int width = 0, height = 0;
    glfwGetFramebufferSize(window_, &width, &height);
    glViewport(0, 0, width, height);
    const ImVec4 ground = ground_color();
    glClearColor(ground.x, ground.y, ground.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    glfwSwapBuffers(window_);
  }

  void restore() {
    const std::optional<WindowPlace> place = read_window_place();
    if (!place) return;
    glfwSetWindowSize(window_, place->width, place->height);
    if (on_a_monitor(*place)) glfwSetWindowPos(window_, place->x, place->y);
    if (place->maximized) glfwMaximizeWindow(window_);
  }

  void remember() const {
    WindowPlace place = read_window_place().value_or(WindowPlace{0, 0, 1600, 900, false});
    place.maximized = glfwGetWindowAttrib(window_, GLFW_MAXIMIZED) != 0;
    if (!place.maximized) {  // if maximized, the stored size stays unchanged
      glfwGetWindowPos(window_, &place.x, &place.y);
      glfwGetWindowSize(window_, &place.width, &place.height);
    }
    write_window_place(place);
  }

  AppState& state_;
  GLFWwindow* window_ = nullptr;
  std::string title_;
};

}  // namespace

void run_window(AppState& state, const Options& options) {
  const Glfw glfw(options);
  const Context context;
  Window window(state, options);
  state.scale = options.scale.value_or(window.content_scale());
  window.run();
}

}  // namespace memtune::gui
