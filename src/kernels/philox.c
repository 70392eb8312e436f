/* The plain path to Philox, one counter at a time: Random123's own. (Many at once: vector/philox.h.) */
#include "kernels/philox.h"

#include <Random123/philox.h>

void th_philox_block(const th_philox *random, uint32_t c0, uint32_t c1, uint32_t words[4])
{
    const philox4x32_ctr_t counter = {{c0, c1, random->call, random->step}};
    const philox4x32_key_t key = {{random->key[0], random->key[1]}};
    const philox4x32_ctr_t block = philox4x32_R(10, counter, key);
    for (int i = 0; i < 4; i++)
        words[i] = block.v[i];
}
