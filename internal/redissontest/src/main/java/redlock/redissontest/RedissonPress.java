// SPDX-License-Identifier: Apache-2.0

package redlock.redissontest;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Measures RedissonRedLock as chaos/peers measures the libraries in Go: so many callers, spread over clients, want one lock, or each its own.
 *
 * <p>The arguments are the number of clients and the masters' addresses. Each line of stdin is a measurement, as a {@link Form}: callers, hold,
 * duration and period in nanoseconds, own, name, locks, and once, where each caller takes its lock once and nothing is measured. The reply is one line of stdout: count, p50, p99, squares (the sum of the squares of
 * the callers' counts), held, cpu and elapsed, in nanoseconds, and failures. The process halts at the end of stdin.
 */
public final class RedissonPress {
    private static final long PATIENCE = 20_000; // milliseconds

    private final List<List<RedissonClient>> clients = new ArrayList<>();

    public static void main(String[] args) throws IOException, InterruptedException {
        PrintStream replies = System.out;
        System.setOut(System.err); // what a library prints must not end up between the replies
        RedissonPress press = new RedissonPress();
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            List<RedissonClient> masters = new ArrayList<>();
            for (String address : Arrays.asList(args).subList(1, args.length)) {
                Config config = new Config(); // Redisson's defaults
                config.useSingleServer().setAddress("redis://" + address);
                masters.add(Redisson.create(config));
            }
            press.clients.add(masters);
        }
        replies.println("ready=1");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            replies.println(press.measure(new Form(line)));
        }
        Runtime.getRuntime().halt(0);
    }

    /** What one caller saw. */
    private static final class Turns {
        final List<Long> waits = new ArrayList<>();
        long held;
        long failures;
    }

    private Form measure(Form request) throws InterruptedException {
        int callers = (int) request.number("callers");
        Turns[] saw = new Turns[callers];
        Thread[] threads = new Thread[callers];
        long spent = cpu();
        long begin = System.nanoTime();
        for (int i = 0; i < callers; i++) {
            int caller = i;
            saw[i] = new Turns();
            threads[i] = new Thread(() -> take(request, caller, begin, saw[caller]));
            threads[i].start();
        }
        for (Thread t : threads) {
            t.join();
        }
        long elapsed = System.nanoTime() - begin;
        List<Long> all = new ArrayList<>();
        double squares = 0;
        long held = 0;
        long failures = 0;
        for (Turns t : saw) {
            all.addAll(t.waits);
            squares += (double) t.waits.size() * t.waits.size();
            held += t.held;
            failures += t.failures;
        }
        all.sort(null);
        Form reply = new Form().put("count", all.size()).put("squares", (long) squares).put("held", held).put("failures", failures)
                .put("cpu", cpu() - spent).put("elapsed", elapsed);
        if (!all.isEmpty()) {
            reply.put("p50", all.get(all.size() / 2)).put("p99", all.get(all.size() * 99 / 100));
        }
        return reply;
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** Lets one caller take and release until the time is over. */
    private void take(Form request, int caller, long begin, Turns saw) {
        boolean own = request.text("own").equals("true");
        boolean once = request.text("once").equals("true");
        long period = request.number("period");
        long end = begin + request.number("duration");
        String name = own ? request.text("name") + "-" + caller : request.text("name");
        for (int n = 0; System.nanoTime() < end && !(once && n > 0); n++) {
            long asked = System.nanoTime();
            if (period > 0) { // an open loop: it is to ask then, whether it was answered or not
                asked = begin + period * n + period * caller / request.number("callers");
                if (!sleep(Math.min(asked, end) - System.nanoTime()) || asked >= end) {
                    return;
                }
            }
            long locks = request.number("locks");
            String wanted = locks == 0 ? name : request.text("name") + "-" + (n * request.number("callers") + caller) % locks;
            RLock lock = lock(clients.get(caller % clients.size()), wanted);
            try {
                // Whose lock nobody else wants waits for masters only, and may come through after the end.
                long wait = own ? PATIENCE : Math.max(1, (end - System.nanoTime()) / 1_000_000);
                if (!lock.tryLock(wait, -1, TimeUnit.MILLISECONDS)) {
                    continue;
                }
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException e) { // such as a master that does not answer
                if (System.nanoTime() < end) {
                    saw.failures++;
                }
                continue;
            }
            long got = System.nanoTime();
            sleep(request.number("hold"));
            saw.held += System.nanoTime() - got;
            if (!own) {
                saw.waits.add(got - asked);
            }
            try {
                lock.unlock();
            } catch (RuntimeException e) {
                saw.failures++;
            }
            if (own) {
                saw.waits.add(System.nanoTime() - asked);
            }
        }
    }

    @SuppressWarnings("deprecation") // RedissonRedLock is what the quorum locks are held against
    private static RLock lock(List<RedissonClient> masters, String name) {
        return masters.get(0).getRedLock(masters.stream().map(m -> m.getLock(name)).toArray(RLock[]::new));
    }

    private static boolean sleep(long nanos) {
        try {
            if (nanos > 0) {
                TimeUnit.NANOSECONDS.sleep(nanos);
            }
            return true;
        } catch (InterruptedException e) {
            return false;
        }
    }
}
