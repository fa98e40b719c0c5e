// std::condition_variable::wait has a symbol version of g++ 12, which added `noexcept`, and an older one that does the
// same. The linker would take the newer one.
extern "C" {

void old_wait(void* condition, void* lock);
__asm__(".symver old_wait, _ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void* condition, void* lock) {
  old_wait(condition, lock);
}

}  // extern "C"
