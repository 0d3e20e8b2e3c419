import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import parsers from '@stoplight/spectral-parsers'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { loadConfig } from '../src/config.ts'
import { temporaryFolder } from './support/open-test-app.ts'
import { canRunAsNobody } from './support/other-user.ts'
import { owner } from './support/unprivileged-user.ts'

const PROJECT = fileURLToPath(new URL('..', import.meta.url))

function read(path: string): string {
  return readFileSync(join(PROJECT, path), 'utf8')
}

/** The instructions of the Dockerfile, each on one line. */
const instructions = read('Dockerfile')
  .replaceAll(/^#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, '')
  .split('\n')
  .filter(line => line !== '')
  .map(line => ({ name: line.split(' ', 1)[0] ?? '', text: line.slice(line.indexOf(' ') + 1) }))

function instruction(name: string): string {
  return instructions.findLast(one => one.name === name)?.text ?? ''
}

/** The variables of its last stage. */
const imageEnv = Object.fromEntries(
  [...instruction('ENV').matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
)

describe('the Dockerfile', () => {
  test('copies what is in the project and let through by .dockerignore', () => {
    const allowed = read('.dockerignore').match(/(?<=^!).+/gm) ?? []
    const copied = instructions
      .filter(({ name, text }) => name === 'COPY' && !text.startsWith('--from'))
      .flatMap(({ text }) => text.split(' ').slice(0, -1))
    expect(copied.length).toBeGreaterThan(8)
    for (const source of copied) {
      expect(existsSync(join(PROJECT, source)), source).toBe(true)
      expect(allowed).toContain(source)
    }
    expect(allowed.filter(path => !copied.includes(path))).toEqual([])
  })

  test('ends as a user who is not root, in exec form, on SIGTERM, with its data in a volume', () => {
    expect(instruction('USER')).toBe('node')
    expect(instruction('STOPSIGNAL')).toBe('SIGTERM')
    expect(JSON.parse(instruction('ENTRYPOINT'))).toEqual(['node', 'dist/main.js'])
    expect(JSON.parse(instruction('CMD'))).toEqual(['serve'])
    expect(instruction('VOLUME')).toBe('/data')
    const { host, port, database } = loadConfig(imageEnv, '/none/.env')
    expect([host, port]).toEqual(['0.0.0.0', 3000])
    expect(database).toMatchObject({ kind: 'sqlite', path: '/data/users.db' })
  })

  test.skipIf(!canRunAsNobody)(
    'makes an image that serves as another user from files it may not write, healthy while it does, and ends on SIGTERM',
    async () => {
      const root = temporaryFolder()
      const [app, data] = [join(root, 'app'), join(root, 'data')]
      for (const folder of [root, app, data]) {
        mkdirSync(folder, { recursive: true })
        chmodSync(folder, 0o755)
      }
      if (owner.uid !== undefined) chownSync(data, owner.uid, owner.gid ?? owner.uid)
      const shipped = instructions
        .slice(instructions.findLastIndex(({ name }) => name === 'FROM'))
        .filter(({ name }) => name === 'COPY')
        .map(({ text }) => text.split(' ').at(-1) ?? '')
      for (const path of shipped) {
        if (path === 'node_modules') symlinkSync(join(PROJECT, path), join(app, path))
        else cpSync(join(PROJECT, path), join(app, path), { recursive: true })
      }
      expect(shipped).toEqual(['package.json', 'node_modules', 'dist', 'migrations'])
      const env = {
        ...imageEnv,
        PATH: process.env.PATH,
        HOST: '127.0.0.1',
        PORT: '0',
        DATABASE_URL: join(data, 'users.db'),
      }
      const [command = '', ...args] = [
        ...JSON.parse(instruction('ENTRYPOINT')),
        ...JSON.parse(instruction('CMD')),
      ] as string[]
      const service = spawn(command, args, { cwd: app, env, ...owner })
      onTestFinished(() => {
        service.kill('SIGKILL')
      })
      const closed = once(service, 'close')
      const port = await new Promise<string>(resolve => {
        let log = ''
        service.stdout.on('data', chunk => {
          log += chunk
          const match = /"url":"http:\/\/[\d.]+:(\d+)"/.exec(log)
          if (match?.[1] !== undefined) resolve(match[1])
        })
      })
      const [healthCommand = '', ...healthArgs] = JSON.parse(
        instruction('HEALTHCHECK').replace(/^.*?CMD /, ''),
      ) as string[]
      const health = () =>
        spawnSync(healthCommand, healthArgs, { cwd: app, env: { ...env, PORT: port } }).status
      expect(health()).toBe(0)
      service.kill('SIGTERM')
      expect(await closed).toEqual([0, null])
      expect(health()).toBe(1)
    },
  )
})

/** What each service of compose.yaml has. */
const CONFINED = {
  image: z.string(),
  restart: z.literal('unless-stopped'),
  stop_grace_period: z.string().regex(/^\d+s$/),
  environment: z.record(z.string(), z.string()),
  read_only: z.literal(true),
  tmpfs: z.array(
    z.string().regex(/^\/(tmp|var\/run\/postgresql|run\/secrets):size=.*,noexec,nosuid,nodev$/),
  ),
  cap_drop: z.tuple([z.literal('ALL')]),
  security_opt: z.tuple([z.literal('no-new-privileges:true')]),
  pids_limit: z.int(),
  mem_limit: z.string(),
  logging: z.strictObject({
    driver: z.literal('json-file'),
    options: z.strictObject({
      'max-size': z.string().regex(/^\d+m$/),
      'max-file': z.string().regex(/^\d+$/),
    }),
  }),
}

const HEALTH_CHECK = {
  interval: z.string(),
  timeout: z.string(),
  start_period: z.string(),
  retries: z.int(),
}

const PINNED = /:v?\d+\.\d+\.\d+$/

/** A shell script, and the name under which it gets the command. */
const SCRIPT = z.tuple([z.literal('/bin/sh'), z.literal('-c'), z.string()]).rest(z.literal('sh'))

const COMPOSE = z.strictObject({
  services: z.strictObject({
    users: z.strictObject({
      ...CONFINED,
      build: z.literal('.'),
      init: z.literal(true),
      deploy: z.strictObject({ replicas: z.string() }),
      ports: z.array(z.string().regex(/^127\.0\.0\.1:\$\{USER_RECORDS_PORTS:-3000\}:3000$/)),
      volumes: z.tuple([z.literal('data:/data')]),
      depends_on: z.strictObject({
        postgres: z.strictObject({
          condition: z.literal('service_healthy'),
          required: z.literal(false),
        }),
        redis: z.strictObject({
          condition: z.literal('service_started'),
          required: z.literal(false),
        }),
      }),
      healthcheck: z.strictObject(HEALTH_CHECK),
    }),
    // It has no ports.
    postgres: z.strictObject({
      ...CONFINED,
      profiles: z.tuple([z.literal('postgres')]),
      user: z.literal('postgres'),
      volumes: z.tuple([
        z.literal('postgres:/var/lib/postgresql/data'),
        z.literal('./deploy/postgres:/docker-entrypoint-initdb.d:ro'),
      ]),
      shm_size: z.string(),
      healthcheck: z.strictObject({ ...HEALTH_CHECK, test: z.array(z.string()) }),
    }),
    // It has no ports either.
    redis: z.strictObject({
      ...CONFINED,
      profiles: z.tuple([z.literal('postgres')]),
      user: z.literal('redis'),
      command: z.array(z.string()),
      healthcheck: z.strictObject({ ...HEALTH_CHECK, test: z.array(z.string()) }),
    }),
    prometheus: z.strictObject({
      ...CONFINED,
      profiles: z.tuple([z.literal('monitoring')]),
      image: z.string().regex(PINNED),
      user: z.literal('nobody'),
      ports: z.tuple([z.string().regex(/^127\.0\.0\.1:\$\{PROMETHEUS_PORT:-9090\}:9090$/)]),
      entrypoint: SCRIPT,
      command: z.array(z.string()),
      volumes: z.tuple([
        z.literal('prometheus:/prometheus'),
        z.literal('./deploy/prometheus:/etc/prometheus:ro'),
      ]),
    }),
    grafana: z.strictObject({
      ...CONFINED,
      profiles: z.tuple([z.literal('monitoring')]),
      image: z.string().regex(PINNED),
      ports: z.tuple([z.string().regex(/^127\.0\.0\.1:\$\{GRAFANA_PORT:-3030\}:3000$/)]),
      entrypoint: SCRIPT,
      volumes: z.tuple([
        z.literal('grafana:/var/lib/grafana'),
        z.literal('./deploy/grafana/provisioning:/etc/grafana/provisioning:ro'),
        z.literal(
          './deploy/grafana/user-records.json:/etc/grafana/dashboards/user-records.json:ro',
        ),
      ]),
    }),
  }),
  volumes: z.strictObject({
    data: z.null(),
    postgres: z.null(),
    prometheus: z.null(),
    grafana: z.null(),
  }),
})

const SCRAPE = z.object({
  scrape_configs: z.tuple([
    z.strictObject({
      job_name: z.literal('user-records'),
      authorization: z.strictObject({ credentials_file: z.string() }),
      dns_sd_configs: z.array(z.object({ names: z.array(z.string()) }).loose()),
    }),
  ]),
})

/** What the caller of compose sets for each password and token. */
const SECRET = 's3cret-of-16-or-more-characters'

describe('compose.yaml', () => {
  const { data, diagnostics } = parsers.Yaml.parse(read('compose.yaml'))

  /** The variables of a service, as compose fills them in from the environment of its caller. */
  function environmentOf(
    name: 'users' | 'postgres' | 'prometheus' | 'grafana',
    caller: Record<string, string> = {},
  ) {
    const { environment } = COMPOSE.parse(data).services[name]
    return Object.fromEntries(
      Object.entries(environment).map(([variable, text]) => [variable, filledIn(text, caller)]),
    )
  }

  function filledIn(text: string, caller: Record<string, string>): string {
    return text.replaceAll(/\$\{(\w+):([-+])([^}]*)\}/g, (_, from, sign, other) => {
      const value = caller[from] || ''
      if (sign === '+') return value && other
      return value || other
    })
  }

  /** The variables that its comments tell the caller to export, in the lines that set one of them. */
  function exportedVariables(named = 'COMPOSE_PROFILES=postgres'): Record<string, string> {
    const blocks = read('compose.yaml').match(/(?:^# +export .*\n)+/gm) ?? []
    const shown = blocks.find(block => block.includes(`${named} `)) ?? ''
    const pairs = Array.from(shown.matchAll(/(\w+)=(\S+)/g), ([, name, value]) => [
      name,
      value === '…' ? SECRET : value,
    ])
    return Object.fromEntries(pairs)
  }

  test('takes away what is not needed, leaves time for a stop, and rotates the log', () => {
    expect(diagnostics).toEqual([])
    const { users } = COMPOSE.parse(data).services
    const env = { ...imageEnv, ...environmentOf('users') }
    const { shutdownTimeoutMs, database } = loadConfig(env, '/none/.env')
    expect(Number.parseInt(users.stop_grace_period, 10) * 1000).toBeGreaterThan(shutdownTimeoutMs)
    expect(database).toMatchObject({ kind: 'sqlite', path: '/data/users.db' })
  })

  test('takes the database and its only password from the environment', () => {
    expect(environmentOf('postgres').POSTGRES_PASSWORD).toBe('')
    const caller = exportedVariables()
    expect(caller.COMPOSE_PROFILES).toBe('postgres')
    expect(environmentOf('postgres', caller)).toMatchObject({
      POSTGRES_PASSWORD: SECRET,
    })
    const env = { ...imageEnv, ...environmentOf('users', caller) }
    expect(loadConfig(env, '/none/.env').database).toMatchObject({
      kind: 'postgres',
      hosts: [{ host: 'postgres', port: 5432 }],
      user: 'user_records',
      password: SECRET,
      database: 'user_records',
    })
  })

  test('counts limits in Redis with that database', () => {
    const { redis } = COMPOSE.parse(data).services
    const env = { ...imageEnv, ...environmentOf('users', exportedVariables()) }
    expect(loadConfig(env, '/none/.env')).toMatchObject({
      cacheStore: 'redis',
      redis: { nodes: [{ host: 'redis', port: 6379 }], isEncrypted: false },
      apiKeys: 'off',
    })
    expect(redis.command).toContain('volatile-ttl')
    const alone = loadConfig({ ...imageEnv, ...environmentOf('users') }, '/none/.env')
    expect(alone).toMatchObject({ cacheStore: 'memory', trustProxy: false })
  })

  test('runs one service or, on ports of their own behind a proxy, two', () => {
    const { users } = COMPOSE.parse(data).services
    const portsOf = (caller: Record<string, string>) =>
      users.ports.map(text => filledIn(text, caller))
    expect(filledIn(users.deploy.replicas, {})).toBe('1')
    expect(portsOf({})).toEqual(['127.0.0.1:3000:3000'])

    const caller = exportedVariables('USER_RECORDS_REPLICAS=2')
    expect(filledIn(users.deploy.replicas, caller)).toBe('2')
    expect(portsOf(caller)).toEqual(['127.0.0.1:3000-3001:3000'])
    const env = { ...imageEnv, ...environmentOf('users', caller) }
    expect(loadConfig(env, '/none/.env')).toMatchObject({ trustProxy: 1 })
  })

  test('opens the management port for Prometheus, which finds it, only with a token', () => {
    const caller = exportedVariables('COMPOSE_PROFILES=monitoring')
    expect(caller.COMPOSE_PROFILES).toBe('monitoring')
    const settings = loadConfig({ ...imageEnv, ...environmentOf('users', caller) }, '/none/.env')
    expect(settings).toMatchObject({
      managementHost: '0.0.0.0',
      managementPort: 9464,
      managementToken: SECRET,
      allowedHosts: undefined,
    })
    const alone = loadConfig({ ...imageEnv, ...environmentOf('users') }, '/none/.env')
    expect(alone).toMatchObject({ managementPort: undefined, managementToken: undefined })

    const { authorization, dns_sd_configs: targets } = SCRAPE.parse(
      parsers.Yaml.parse(read('deploy/prometheus/prometheus.yml')).data,
    ).scrape_configs[0]
    expect(targets).toEqual([
      { names: ['users'], type: 'A', port: settings.managementPort, refresh_interval: '15s' },
    ])
    expect(environmentOf('prometheus', caller)).toEqual({ MANAGEMENT_TOKEN: SECRET })
    const { prometheus } = COMPOSE.parse(data).services
    expect(prometheus.tmpfs).toHaveLength(1)
    expect(authorization.credentials_file).toBe('/run/secrets/management_token')
  })

  test('gives Prometheus the token in a file, and its arguments', () => {
    const { prometheus } = COMPOSE.parse(data).services
    const folder = temporaryFolder()
    const [shell, option, script = '', ...names] = prometheus.entrypoint
    const adapted = script
      .replaceAll('$$', '$')
      .replace('/run/secrets', folder)
      .replace('/bin/prometheus', 'echo')
    const printed = execFileSync(shell, [option, adapted, ...names, ...prometheus.command], {
      env: { PATH: process.env.PATH, ...environmentOf('prometheus', { MANAGEMENT_TOKEN: 'a $b' }) },
      encoding: 'utf8',
    })
    expect(printed).toBe(`${prometheus.command.join(' ')}\n`)
    expect(printed).toContain('--enable-feature=exemplar-storage')
    expect(readFileSync(join(folder, 'management_token'), 'utf8')).toBe('a $b')
  })

  test('does not start Grafana without a password, and shows it the dashboard and Prometheus', () => {
    const { grafana } = COMPOSE.parse(data).services
    const start = (caller: Record<string, string>) =>
      spawnSync(
        '/bin/sh',
        ['-c', grafana.entrypoint[2].replaceAll('$$', '$').replace('/run.sh', 'true')],
        {
          env: { PATH: process.env.PATH, ...environmentOf('grafana', caller) },
          encoding: 'utf8',
        },
      )
    expect(start({})).toMatchObject({ status: 1, stdout: 'GRAFANA_PASSWORD is not set\n' })
    expect(start(exportedVariables('COMPOSE_PROFILES=monitoring'))).toMatchObject({
      status: 0,
      stdout: '',
    })

    const provisioned = (name: string) =>
      parsers.Yaml.parse(read(`deploy/grafana/provisioning/${name}.yml`)).data
    expect(provisioned('datasources/prometheus')).toMatchObject({
      datasources: [{ type: 'prometheus', url: 'http://prometheus:9090', isDefault: true }],
    })
    expect(provisioned('dashboards/user-records')).toMatchObject({
      providers: [{ type: 'file', options: { path: '/etc/grafana/dashboards' } }],
    })
    expect(grafana.environment.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH).toBe(
      '/etc/grafana/dashboards/user-records.json',
    )
  })
})

const UNITS = ['user-records@.service', 'user-records-backup.service', 'user-records-backup.timer']

const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0
if (!hasSystemd) console.log('the units of deploy/ are not verified: there is no systemd-analyze')

test.skipIf(!hasSystemd)('the units of deploy/ are what systemd understands', () => {
  const folder = temporaryFolder()
  for (const name of UNITS) {
    // The paths of the machine that it is for are not there.
    const text = read(`deploy/${name}`).replaceAll('/usr/bin/node', process.execPath)
    writeFileSync(join(folder, name), text)
  }
  const { stdout, stderr } = spawnSync(
    'systemd-analyze',
    ['verify', '--man=no', ...UNITS.map(name => join(folder, name))],
    { encoding: 'utf8' },
  )
  const ours = `${stdout}${stderr}`.split('\n').filter(line => line.includes('user-records'))
  expect(ours).toEqual([])
})

/** Reads the values of a key in the text of a unit. */
function valuesOf(unit: string) {
  return (key: string) =>
    [...unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm'))].map(([, value]) => value ?? '')
}

test('each instance of the unit listens on its own port and, if wanted, on its own management port', () => {
  const instance = read('deploy/user-records@.service')
    .replaceAll('%i', '3001')
    .replace(/^#(?=Environment=MANAGEMENT_PORT)/m, '')
  const values = valuesOf(instance)
  expect(values('ExecStart')[0]).toMatch(/ serve --port 3001$/)
  const environment = Object.fromEntries(
    values('Environment').flatMap(line => line.split(' ').map(text => text.split('='))),
  )
  expect(loadConfig(environment, '/none/.env')).toMatchObject({
    managementPort: 13_001,
    managementHost: '127.0.0.1',
  })
  expect(valuesOf(read('deploy/user-records@.service'))('Environment')).toHaveLength(1)
})

test('the unit of the service stops later than the service, reloads by SIGHUP, and may only write its data', () => {
  const values = valuesOf(read('deploy/user-records@.service'))
  const environment = Object.fromEntries(
    (values('Environment')[0] ?? '').split(' ').map(text => text.split('=')),
  )
  const { shutdownTimeoutMs, database } = loadConfig(environment, '/none/.env')
  expect(Number.parseInt(values('TimeoutStopSec')[0] ?? '', 10) * 1000).toBeGreaterThan(
    shutdownTimeoutMs,
  )
  expect(database).toMatchObject({ path: `/var/lib/${values('StateDirectory')[0]}/users.db` })
  expect(values('ExecReload')).toEqual(['/bin/kill -HUP $MAINPID'])
  for (const [key, value] of [
    ['ProtectSystem', 'strict'],
    ['NoNewPrivileges', 'yes'],
    ['Restart', 'on-failure'],
  ] as const) {
    expect(values(key)).toEqual([value])
  }
  expect(values('MemoryDenyWriteExecute')).toEqual([])
})

test('the unit of the backup runs a command that makes one', () => {
  const [, command = ''] =
    /^ExecStart=\/bin\/sh -c '(.*)'$/m.exec(read('deploy/user-records-backup.service')) ?? []
  const folder = temporaryFolder()
  const script = command
    .replace('/usr/bin/node /opt/user-records-service', `${process.execPath} ${PROJECT}`)
    .replace('/var/lib/user-records-backups', folder)
    .replaceAll('$$', '$')
    .replaceAll('%%', '%')
  const env = { PATH: process.env.PATH, LC_ALL: 'C', DATABASE_URL: join(folder, 'users.db') }
  execFileSync(process.execPath, [join(PROJECT, 'dist/main.js'), 'migrate'], { env, cwd: folder })
  const printed = execFileSync('/bin/sh', ['-c', script], { env, cwd: folder, encoding: 'utf8' })
  expect(printed).toMatch(/\/\w+day\.db: [\d.]+ MB, checked\n$/)
})
