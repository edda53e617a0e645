// SPDX-License-Identifier: Apache-2.0

package redlock.redissontest;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * A Java service that holds Redisson locks as its driver tells it to.
 *
 * <p>Requests come in on stdin, one a line, each a URL-encoded form: {@code id=7&op=lock&session=s&kind=red&name=x}.
 * Replies go out on stdout in the same form, one a line, in the order they are ready:
 * {@code id=7&began=..&ended=..&value=..}, or {@code error=<class>&message=..} in place of the value. A loop sends one
 * more line for every time it held the lock: {@code id=7&from=..&to=..}. A form, because Redisson 4.7 brings no JSON
 * parser and both sides have this one in their standard library.
 *
 * <p>Every duration is in nanoseconds. Every instant is System.nanoTime(), which on Linux is CLOCK_MONOTONIC, so the
 * driver can compare it with its own clock.
 *
 * <p>The process halts at the end of stdin without giving anything back: to Redis that is a service that crashed, and
 * no driver that dies can leave it behind.
 */
public final class RedissonPeer {
    private final BlockingQueue<String> out = new LinkedBlockingQueue<>();
    private final Map<String, Session> sessions = new ConcurrentHashMap<>();
    private final ExecutorService anyThread = Executors.newCachedThreadPool();
    // One client a master, in the driver's order. Written once, by the first request, before any other is read.
    private List<RedissonClient> masters = List.of();

    public static void main(String[] args) throws IOException {
        PrintStream replies = System.out;
        System.setOut(System.err); // what a library prints must not end up between the replies
        RedissonPeer peer = new RedissonPeer();
        Thread writer = new Thread(() -> peer.write(replies));
        writer.setDaemon(true);
        writer.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            peer.accept(new Form(line));
        }
        Runtime.getRuntime().halt(0);
    }

    /** Owner of a lock is a thread in Redisson, so a session is one thread; its lock objects are that thread's own. */
    private static final class Session {
        final ExecutorService thread = Executors.newSingleThreadExecutor();
        final Map<String, RLock> locks = new HashMap<>();
    }

    private void accept(Form request) {
        switch (request.text("op")) {
            case "connect": // on this thread: what follows in stdin needs the clients
                answer(request, () -> connect(request));
                return;
            case "clock":
                answer(request, () -> true);
                return;
            default:
        }
        String name = request.text("session");
        if (name.isEmpty()) {
            anyThread.execute(() -> answer(request, () -> perform(request, lock(request))));
            return;
        }
        Session session = sessions.computeIfAbsent(name, n -> new Session());
        session.thread.execute(() -> answer(request, () -> {
            // The same object for the same lock, as a service that keeps its RLock in a field has it: the object
            // remembers the last lease, which a partial unlock puts back on the key.
            RLock lock = session.locks.computeIfAbsent(request.target(), t -> lock(request));
            return perform(request, lock);
        }));
    }

    private interface Call {
        Object run() throws Exception;
    }

    private void answer(Form request, Call call) {
        Form reply = new Form().put("id", request.text("id"));
        long began = System.nanoTime();
        try {
            Object value = call.run();
            reply.put("ended", System.nanoTime()).put("value", value);
        } catch (Throwable t) {
            reply.put("ended", System.nanoTime()).put("error", t.getClass().getName())
                    .put("message", String.valueOf(t.getMessage()));
        }
        out.add(reply.put("began", began).toString());
    }

    private Object connect(Form request) {
        List<RedissonClient> clients = new ArrayList<>();
        for (String address : request.all("address")) {
            Config config = new Config().setThreads(2).setNettyThreads(2);
            if (request.number("watchdog") > 0) {
                config.setLockWatchdogTimeout(request.millis("watchdog"));
            }
            // Small to start with; the upper bounds still allow dozens of waiting sessions.
            config.useSingleServer().setAddress("redis://" + address)
                    .setConnectionMinimumIdleSize(1).setConnectionPoolSize(16)
                    .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(16);
            clients.add(Redisson.create(config));
        }
        masters = List.copyOf(clients);
        return clients.size();
    }

    private RLock lock(Form request) {
        String name = request.text("name");
        RedissonClient master = masters.get((int) request.number("master"));
        return switch (request.text("kind")) {
            case "plain" -> master.getLock(name);
            case "fair" -> master.getFairLock(name);
            case "read" -> master.getReadWriteLock(name).readLock();
            case "write" -> master.getReadWriteLock(name).writeLock();
            case "multi" -> master.getMultiLock(request.all("name").stream().map(master::getLock).toArray(RLock[]::new));
            case "red" -> red(masters.stream().map(m -> m.getLock(name)));
            case "redread" -> red(masters.stream().map(m -> m.getReadWriteLock(name).readLock()));
            case "redwrite" -> red(masters.stream().map(m -> m.getReadWriteLock(name).writeLock()));
            default -> throw new IllegalArgumentException("no such kind: " + request.text("kind"));
        };
    }

    @SuppressWarnings("deprecation") // RedissonRedLock is what the quorum locks are held against
    private RLock red(Stream<RLock> oneEach) {
        return masters.get(0).getRedLock(oneEach.toArray(RLock[]::new));
    }

    private Object perform(Form request, RLock lock) throws InterruptedException {
        String op = request.text("op");
        switch (op) {
            case "isLocked":
                return lock.isLocked();
            case "forceUnlock":
                return lock.forceUnlock();
            case "remaining":
                return TimeUnit.MILLISECONDS.toNanos(lock.remainTimeToLive());
            default:
        }
        if (request.text("session").isEmpty()) {
            throw new IllegalArgumentException(op + " needs a session");
        }
        switch (op) {
            case "lock":
                lock(lock, request.millis("lease"));
                return true;
            case "tryLock":
                return tryLock(lock, request.millis("wait"), request.millis("lease"));
            case "unlock":
                lock.unlock();
                return true;
            case "loop":
                return loop(request, lock);
            default:
                throw new IllegalArgumentException("no such op: " + op);
        }
    }

    private static void lock(RLock lock, long lease) {
        if (lease == 0) {
            lock.lock(); // held by the watchdog
        } else {
            lock.lock(lease, TimeUnit.MILLISECONDS);
        }
    }

    private static boolean tryLock(RLock lock, long wait, long lease) throws InterruptedException {
        if (wait == 0 && lease == 0) {
            return lock.tryLock(); // a script of its own for a fair lock: it does not queue
        }
        return lock.tryLock(wait, lease == 0 ? -1 : lease, TimeUnit.MILLISECONDS);
    }

    /** Holds the lock again and again; the answer is how often it was held. An error ends it. */
    private long loop(Form request, RLock lock) throws InterruptedException {
        long lease = request.millis("lease");
        long wait = request.millis("wait");
        long held = 0;
        for (long i = 0; i < request.number("times"); i++) {
            if (wait == 0) {
                lock(lock, lease);
            } else if (!tryLock(lock, wait, lease)) {
                continue;
            }
            held++;
            long from = System.nanoTime();
            TimeUnit.NANOSECONDS.sleep(request.number("hold"));
            long to = System.nanoTime();
            // Before the unlock, so that a hold whose unlock fails is reported too.
            out.add(new Form().put("id", request.text("id")).put("from", from).put("to", to).toString());
            lock.unlock();
        }
        return held;
    }

    private void write(PrintStream replies) {
        try {
            while (true) {
                replies.println(out.take()); // System.out flushes itself at the end of a line
            }
        } catch (InterruptedException e) {
            throw new AssertionError(e); // nobody interrupts this thread
        }
    }
}
