import { Bans } from './bans.tsx'
import { Charts } from './charts.tsx'
import { Header, type HeaderProps } from './header.tsx'
import { Limits } from './limits.tsx'
import { Database, Keys, Process, Routes } from './panels.tsx'
import { Tiles } from './tiles.tsx'

export interface PageProps extends HeaderProps {
  /** What happened just now; empty for nothing. */
  readonly message: string
}

export function Page({ view, connection, message, actions }: PageProps) {
  return (
    <div class={connection.kind}>
      <Header {...{ connection, view, actions }} />
      <main>
        <Tiles view={view} />
        <Charts view={view} />
        <div class="panels">
          <Limits {...{ view, actions }} />
          <Bans {...{ view, actions }} />
          <Routes view={view} />
          <Process view={view} />
          <Database view={view} />
          <Keys view={view} />
        </div>
      </main>
      <p class="message" id="message" role="status">
        {message !== '' && message}
      </p>
    </div>
  )
}
