// The same program in C++17.
#include "main.c"
