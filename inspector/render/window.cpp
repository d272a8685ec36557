// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/window.h"

#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "inspector/render/gl_textures.h"

namespace tessera::inspector {
namespace {

// After input ImGui needs further frames until hover, focus and sizes have settled.
constexpr int frames_after_input = 3;
constexpr double sleep_s_max = 1.0;
constexpr double cursor_blink_s = 0.4;

std::string glfw_reason() {
  const char* reason = nullptr;
  glfwGetError(&reason);
  return reason == nullptr ? "GLFW gives no reason" : reason;
}

/// GLFW, the window, its OpenGL context and ImGui's context with both backends.
class Window {
 public:
  explicit Window(const WindowOptions& options) : options_(options) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window();

  Status open();
  Status run(const std::function<bool(Surface&)>& draw);

 private:
  static Window& of(GLFWwindow* window) {
    return *static_cast<Window*>(glfwGetWindowUserPointer(window));
  }
  std::pair<int, int> first_size() const;
  void listen();
  void open_imgui();
  void sleep(bool moving) const;
  void do_out_wish();
  float display_scale() const;
  void note_size();
  void take_picture();
  bool draw_frame(const std::function<bool(Surface&)>& draw);

  const WindowOptions& options_;
  bool glfw_open_ = false;
  GLFWwindow* window_ = nullptr;
  ImGuiContext* context_ = nullptr;
  std::unique_ptr<GlTextureStore> textures_;
  std::unique_ptr<Surface> surface_;
  int frames_wanted_ = frames_after_input;
};

Window::~Window() {
  if (context_ != nullptr) {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext(context_);
  }
  textures_.reset();
  if (window_ != nullptr) glfwDestroyWindow(window_);
  if (glfw_open_) glfwTerminate();
}

Status Window::open() {
  if (glfwInit() == GLFW_FALSE) {
    return {Code::not_supported,
            fmt::format("no display: {}. Use --screenshot to draw into a file.", glfw_reason())};
  }
  glfw_open_ = true;
  glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
  glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 2);
  glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
  glfwWindowHint(GLFW_OPENGL_FORWARD_COMPAT, GLFW_TRUE);
  glfwWindowHint(GLFW_SCALE_TO_MONITOR, GLFW_TRUE);
  glfwWindowHint(GLFW_MAXIMIZED, options_.maximised ? GLFW_TRUE : GLFW_FALSE);
  const auto [width, height] = first_size();
  window_ = glfwCreateWindow(width, height, options_.title.c_str(), nullptr, nullptr);
  if (window_ == nullptr) {
    return {Code::not_supported, fmt::format("no window with OpenGL 3.2: {}. Use --screenshot to "
                                             "draw into a file.",
                                             glfw_reason())};
  }
  glfwMakeContextCurrent(window_);
  glfwSwapInterval(1);
  listen();
  open_imgui();
  return {};
}

std::pair<int, int> Window::first_size() const {
  GLFWmonitor* const display = options_.within_display ? glfwGetPrimaryMonitor() : nullptr;
  int width = 0, height = 0;
  if (display != nullptr) glfwGetMonitorWorkarea(display, nullptr, nullptr, &width, &height);
  if (width <= 0 || height <= 0) return {options_.width, options_.height};
  float scale_x = 1, scale_y = 1;
  glfwGetMonitorContentScale(display, &scale_x, &scale_y);
  const auto room = [](int px, float scale) {
    return static_cast<int>(static_cast<float>(px) / std::max(scale, 0.5F));
  };
  return {std::min(options_.width, room(width, scale_x)),
          std::min(options_.height, room(height, scale_y))};
}

/// Any input wakes the loop. ImGui's backend is installed later and calls these in turn.
void Window::listen() {
  glfwSetWindowUserPointer(window_, this);
  const auto wake = [](GLFWwindow* w) { of(w).frames_wanted_ = frames_after_input; };
  glfwSetWindowRefreshCallback(window_, wake);
  glfwSetKeyCallback(window_, [](GLFWwindow* w, int key, int, int action, int mods) {
    of(w).frames_wanted_ = frames_after_input;
    if (action == GLFW_RELEASE || key < 0) return;
    of(w).surface_->presses.push_back({key, mods, action == GLFW_REPEAT});
  });
  glfwSetCharCallback(window_,
                      [](GLFWwindow* w, unsigned) { of(w).frames_wanted_ = frames_after_input; });
  glfwSetMouseButtonCallback(
      window_, [](GLFWwindow* w, int, int, int) { of(w).frames_wanted_ = frames_after_input; });
  const auto moved = [](GLFWwindow* w, double, double) {
    of(w).frames_wanted_ = frames_after_input;
  };
  glfwSetScrollCallback(window_, moved);
  glfwSetCursorPosCallback(window_, moved);
  const auto changed = [](GLFWwindow* w, int) { of(w).frames_wanted_ = frames_after_input; };
  glfwSetCursorEnterCallback(window_, changed);
  glfwSetWindowFocusCallback(window_, changed);
  glfwSetFramebufferSizeCallback(
      window_, [](GLFWwindow* w, int, int) { of(w).frames_wanted_ = frames_after_input; });
  glfwSetWindowContentScaleCallback(
      window_, [](GLFWwindow* w, float, float) { of(w).frames_wanted_ = frames_after_input; });
  glfwSetDropCallback(window_, [](GLFWwindow* w, int count, const char** paths) {
    of(w).frames_wanted_ = frames_after_input;
    for (int i = 0; i < count; ++i) of(w).surface_->dropped_files.emplace_back(paths[i]);
  });
}

void Window::open_imgui() {
  context_ = ImGui::CreateContext();
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.LogFilename = nullptr;
  ImGui_ImplGlfw_InitForOpenGL(window_, true);
  ImGui_ImplOpenGL3_Init("#version 150");
  textures_ = std::make_unique<GlTextureStore>();
  surface_.reset(new Surface{.textures = *textures_,
                             .theme = {},
                             .fonts = {},
                             .scripted = options_.screenshot_after_frames > 0,
                             .dropped_files = {},
                             .window = {},
                             .presses = {},
                             .wish = {.kind = options_.theme, .zoom = options_.zoom}});
  io.ConfigInputTextCursorBlink = !surface_->scripted;
}

/// The part of the display's scale that ImGui's coordinates do not already contain: on X11 and
/// Windows they are pixels, on macOS and Wayland the frame buffer is larger than the window.
float Window::display_scale() const {
  float scale_x = 1.0F;
  float scale_y = 1.0F;
  glfwGetWindowContentScale(window_, &scale_x, &scale_y);
  int width = 0;
  int frame_width = 0;
  glfwGetWindowSize(window_, &width, nullptr);
  glfwGetFramebufferSize(window_, &frame_width, nullptr);
  const float contained =
      width > 0 ? static_cast<float>(frame_width) / static_cast<float>(width) : 1.0F;
  return contained > 0.0F ? scale_x / contained : scale_x;
}

void Window::do_out_wish() {
  Surface::Wish& wish = surface_->wish;
  wish.zoom = std::clamp(wish.zoom, 0.5F, 3.0F);
  const float scale = std::clamp(display_scale() * wish.zoom, 0.5F, 4.0F);
  const bool first = surface_->fonts.body == nullptr;
  if (first || scale != surface_->theme.scale) {
    if (!first) ImGui_ImplOpenGL3_DestroyFontsTexture();
    surface_->fonts = load_fonts(ImGui::GetIO(), scale);
    if (!first) ImGui_ImplOpenGL3_CreateFontsTexture();  // the first is made by its NewFrame
  }
  if (first || scale != surface_->theme.scale || wish.kind != surface_->theme.kind) {
    surface_->theme = apply_theme(wish.kind, scale);
  }
  if (!wish.title.empty()) glfwSetWindowTitle(window_, wish.title.c_str());
  wish.title.clear();
  if (wish.quit) glfwSetWindowShouldClose(window_, GLFW_TRUE);
}

void Window::note_size() {
  Surface::WindowSize& size = surface_->window;
  size.maximised = glfwGetWindowAttrib(window_, GLFW_MAXIMIZED) == GLFW_TRUE;
  int width = 0, height = 0;
  glfwGetWindowSize(window_, &width, &height);
  const float scale = display_scale();
  if (size.maximised || width <= 0 || height <= 0 || scale <= 0) return;
  size.width = static_cast<int>(static_cast<float>(width) / scale + 0.5F);
  size.height = static_cast<int>(static_cast<float>(height) / scale + 0.5F);
}

// Before the buffers are swapped: what was drawn is still there.
void Window::take_picture() {
  std::string& path = surface_->wish.picture;
  if (path.empty()) return;
  int width = 0, height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  surface_->picture_done = write_png(read_gl_frame(width, height), path);
  path.clear();
  frames_wanted_ = frames_after_input;
}

void Window::sleep(bool moving) const {
  if (moving || frames_wanted_ > 0 || options_.screenshot_after_frames > 0) {
    glfwPollEvents();
  } else {
    const double wake = surface_->wish.wake_s > 0 ? surface_->wish.wake_s : sleep_s_max;
    glfwWaitEventsTimeout(ImGui::GetIO().WantTextInput ? std::min(wake, cursor_blink_s) : wake);
  }
}

bool Window::draw_frame(const std::function<bool(Surface&)>& draw) {
  ImGui_ImplOpenGL3_NewFrame();
  ImGui_ImplGlfw_NewFrame();
  ImGui::NewFrame();
  const bool moving = draw(*surface_);
  ImGui::Render();
  surface_->dropped_files.clear();
  surface_->presses.clear();

  int width = 0;
  int height = 0;
  glfwGetFramebufferSize(window_, &width, &height);
  const ImVec4 ground = ImGui::ColorConvertU32ToFloat4(surface_->theme.ground);
  glViewport(0, 0, width, height);
  glClearColor(ground.x, ground.y, ground.z, 1.0F);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  return moving;
}

Status Window::run(const std::function<bool(Surface&)>& draw) {
  bool moving = true;
  for (int frame = 1; glfwWindowShouldClose(window_) == GLFW_FALSE;) {
    sleep(moving);
    const bool wakes = ImGui::GetIO().WantTextInput || surface_->wish.wake_s > 0;
    if (!moving && frames_wanted_ == 0 && !wakes && options_.screenshot_after_frames == 0) {
      continue;
    }
    surface_->wish.wake_s = 0;
    frames_wanted_ = std::max(frames_wanted_ - 1, 0);
    do_out_wish();
    note_size();
    moving = draw_frame(draw);
    if (frame == options_.screenshot_after_frames) {
      int width = 0;
      int height = 0;
      glfwGetFramebufferSize(window_, &width, &height);
      return write_png(read_gl_frame(width, height), options_.screenshot_path);
    }
    take_picture();
    glfwSwapBuffers(window_);
    ++frame;
  }
  return {};
}

}  // namespace

Status run_window(const WindowOptions& options, const std::function<bool(Surface&)>& draw) {
  Window window(options);
  TESSERA_TRY(window.open());
  return window.run(draw);
}

}  // namespace tessera::inspector
