// hypotf has a symbol version of glibc 2.35 that no longer sets errno.
extern "C" {

float old_hypotf(float x, float y);
__asm__(".symver old_hypotf, hypotf@GLIBC_2.2.5");
float __wrap_hypotf(float x, float y) { return old_hypotf(x, y); }

}  // extern "C"
